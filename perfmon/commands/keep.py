"""`perfmon record` and `perfmon collect`: logs kept to replay or analyse them later."""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import signal
import sys
import tarfile
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from perfmon._version import __version__
from perfmon.core import (
    ConnectError,
    ExitCode,
    InputError,
    PerfmonError,
    UsageError,
    counted,
    format_bytes,
    format_seconds,
    plain,
    plural_of,
    replacing,
)
from perfmon.sources.follow import end

from ._options import ProgressBar, add_sources_argument, byte_count, completes_files, on_disk, seconds, warn
from ._remote import (
    Wanted,
    add_host_arguments,
    add_login_arguments,
    add_reach_arguments,
    connect,
    feed_of,
    sort_specs,
    wanted,
)

if TYPE_CHECKING:
    from perfmon.core import Block, Notice
    from perfmon.monitor import Feed
    from perfmon.recording import RecordingWriter
    from perfmon.sources import LogFile
    from perfmon.sources.remote import Fleet

    Item = tuple[LogFile, Block | Notice]

    from collections.abc import Callable, Sequence

    from perfmon.sources.remote import HostCopy


class Record:
    """The command `record`."""

    DESCRIPTION = """\
Follow logs without a screen and record them until stopped. Credentials are masked before they are written, and only the
owner may read the file. After a crash or on a full disk, everything recorded so far stays readable. perfmon analyze
reads a recording like the logs themselves.

Exit codes: 0 if stopped by SIGTERM or --for, or if nothing is left to follow, 130 if stopped by Ctrl+C, 2 if the
recording stopped early (full disk, --max-size). The file is valid in each case."""
    EXAMPLE = "perfmon record logs/ -o run.pmrec --for 10m"

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        add_sources_argument(parser)
        about = "output file (default: perfmon-DATE-TIME.pmrec)"
        completes_files(parser.add_argument("-o", "--output", metavar="FILE", type=on_disk, help=about))
        parser.add_argument("--for", dest="for_s", metavar="TIME", type=seconds, help="stop after this time (30s, 10m)")
        parser.add_argument("--no-history", action="store_true", help="skip existing content and record only new lines")
        parser.add_argument("--max-size", metavar="SIZE", type=_size, help="stop at this size (500M; default: 2G)")
        parser.add_argument("--force", action="store_true", help="overwrite an existing file")
        add_reach_arguments(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        from perfmon.recording import MAX_BYTES, SUFFIX, RecordingWriter

        wanted = sort_specs(args.spec)
        path = args.output or Path(f"perfmon-{datetime.now():%Y%m%d-%H%M%S}{SUFFIX}")
        history = 0 if args.no_history else args.history
        fleet = connect(args, wanted.remote, history=history) if wanted.remote else None
        writer = RecordingWriter(path, args.spec, overwrite=args.force, max_bytes=args.max_size or MAX_BYTES)
        recorder = _Recorder(writer)
        try:
            asyncio.run(recorder.record(partial(_feed, fleet, wanted, not args.no_history), args.for_s))
        except PerfmonError:
            writer.close()
            if not writer.frames:
                path.unlink(missing_ok=True)
            raise
        finally:
            writer.close(recorder.elapsed_s)
        warn(f"recorded {recorder.summary()}")
        if writer.failed:
            raise InputError(writer.failed)
        return ExitCode.INTERRUPTED if recorder.interrupted else ExitCode.DONE


_TICK_S = 1.0
_LAST_LOOK_S = 0.4
"""Time to read lines that were printed just before the end."""
_REPORTED = ("gone", "lost", "capped", "unopened")


def _feed(fleet: Fleet | None, wanted: Wanted, history: bool) -> Feed:
    return feed_of(fleet, wanted.local, history=history, pollers=wanted.pollers, inspector=wanted.collectives)


async def _items(feed: Feed) -> AsyncIterator[Item]:
    """Lines of local and remote logs, and readings of pollers."""
    from perfmon.core import Block, Notice
    from perfmon.monitor import ResetMarker

    try:
        async for log, item in feed.items():
            if not isinstance(item, ResetMarker):
                yield log, item if isinstance(item, Block | Notice) else item.block()
    finally:
        await feed.close()


class _Recorder:
    """Follows, writes and shows how far it is."""

    def __init__(self, writer: RecordingWriter) -> None:
        self.interrupted = False
        self._writer = writer
        self._began = time.monotonic()
        self._logs: set[str] = set()
        self._ended = asyncio.Event()
        self._shown = sys.stderr.isatty()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the recording began."""
        return time.monotonic() - self._began

    async def record(self, feed_made: Callable[[], Feed], for_s: float | None) -> None:
        """Until a signal, the end of the time, of all logs, or of the room on the disk."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # of nohup
                loop.add_signal_handler(number, self._ended.set)
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        feed = feed_made()
        following = asyncio.create_task(self._follow(_items(feed)))
        ended = asyncio.create_task(self._ended.wait())
        try:
            while not following.done() and not ended.done() and not self._writer.failed:
                left = _TICK_S if for_s is None else min(_TICK_S, for_s - self.elapsed_s)
                if left <= 0:
                    break
                await asyncio.wait((following, ended), timeout=left, return_when=asyncio.FIRST_COMPLETED)
                self._tick()
            await asyncio.wait((following,), timeout=0 if self._writer.failed else _LAST_LOOK_S)
            for log, item in feed.finish():
                self._write(log, item)
        finally:
            self._clear()
            ended.cancel()
            await end(following)

    def summary(self) -> str:
        """Summary of the recording in a line."""
        writer = self._writer
        logs = f"{len(self._logs):,} {plural_of(len(self._logs), 'log')}"
        what = f"{writer.lines:,} {plural_of(writer.lines, 'line')} ({format_bytes(writer.log_bytes)}) of {logs}"
        where = f"{plain(str(writer.path))}, {format_bytes(writer.bytes_written)}"
        return f"{what} in {format_seconds(self.elapsed_s)}: {where}"

    async def _follow(self, items: AsyncIterator[Item]) -> None:
        async for log, item in items:
            self._write(log, item)

    def _write(self, log: LogFile, item: Block | Notice) -> None:
        from perfmon.core import Notice

        if isinstance(item, Notice):
            self._report(item)
        else:
            self._logs.add(log.name)
        self._writer.write(self.elapsed_s, log.name, item)

    def _report(self, notice: Notice) -> None:
        """Report missing data as soon as it is known."""
        if notice.kind in _REPORTED:
            self._clear()
            warn(f"{plain(notice.text, 500)}")

    def _interrupt(self) -> None:
        self.interrupted = True
        self._ended.set()

    def _tick(self) -> None:
        self._writer.flush_due()
        if self._shown:
            room = shutil.get_terminal_size().columns - 1
            text = f"recording {self.summary()} (Ctrl+C stops)"[:room]
            print(f"\r{text}\x1b[K", end="", file=sys.stderr, flush=True)

    def _clear(self) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _size(text: str) -> int:
    count = byte_count(text) or 0.0
    if not 1024 <= count < 1e18:
        raise argparse.ArgumentTypeError(f"expected a size such as 500M or 2G, not {text!r}")
    return int(count)


class Collect:
    """The command `collect`."""

    DESCRIPTION = """\
Copy the logs of a run from all hosts into one archive for perfmon analyze: one folder per host, and manifest.json with
sizes, SHA-256 and host details. Without --log, the logs of running processes are discovered.

If it is interrupted or the connection drops, partial data stays next to the archive, in FILE.parts; the same command
resumes. The archive contains the logs unchanged, credentials included: only its owner may read it. With --redact,
whatever looks like a credential is stars, and compressed logs are unpacked for that.

Exit code 3: a host could not be reached or was lost; the archive has the logs of the others, and the same command
completes it."""
    EXAMPLE = "perfmon collect ubuntu@gpu-1 ubuntu@gpu-2 --log '~/outputs/*/logs' -o bundle.tar.gz"

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        add_host_arguments(parser)
        completes_files(
            parser.add_argument(
                "-o", "--output", metavar="FILE", type=on_disk, required=True, help="the archive (.tar.gz)"
            )
        )
        parser.add_argument("--force", action="store_true", help="overwrite an existing archive")
        parser.add_argument("--redact", action="store_true", help="replace credentials in the logs by stars")
        add_login_arguments(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        output: Path = args.output
        if not output.name.endswith((".tar.gz", ".tgz")):
            raise UsageError(f"{output}: the archive name must end in .tar.gz")
        specs = wanted(args.host, args.log)
        parts = output.with_name(output.name + ".parts")
        if output.exists() and not args.force and not _unfinished(parts, {spec.address.shown for spec in specs}):
            raise InputError(f"{output}: already exists (--force overwrites it)")
        fleet = connect(args, specs, history=None, again=False)
        try:
            parts.mkdir(mode=0o700, exist_ok=True)
            with ProgressBar("collecting logs") as bar:
                copies, failures = fleet.fetch(parts, bar)
        except OSError as error:
            raise InputError(f"{parts}: cannot be written: {error.strerror}") from None
        finally:
            fleet.close()
        return _finish(args, parts, copies, [str(failure) for failure in failures])


_MANIFEST = "manifest.json"


def _unfinished(parts: Path, hosts: set[str]) -> bool:
    """Return true if the existing archive lacks hosts and this command includes all of its hosts."""
    try:
        held = json.loads((parts / _MANIFEST).read_text())["hosts"]
        return {host["host"] for host in held} <= hosts
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _finish(args: argparse.Namespace, parts: Path, copies: Sequence[HostCopy], failures: Sequence[str]) -> int:
    output: Path = args.output
    logs = [log for copy in copies for log in copy.logs]
    for problem in (problem for copy in copies for problem in (*copy.unfound, *copy.problems)):
        warn(problem)
    if not logs:
        raise ConnectError(failures[0]) if failures else InputError("no logs found (name them with --log)")
    try:
        _pack(output, parts, copies, redacted=args.redact)
        if not failures:
            shutil.rmtree(parts)
    except OSError as error:
        raise InputError(
            f"{output}: cannot be written: {error.strerror} (free some space; copied data is kept)"
        ) from None
    size = sum(log.size for log in logs)
    what = f"{counted(len(logs), 'log')} of {counted(len(copies), 'host')} ({format_bytes(size)})"
    warn(f"{what}: {output}")
    for failure in failures:
        warn(failure)
    return ExitCode.CONNECT if failures else ExitCode.DONE


def _pack(output: Path, parts: Path, copies: Sequence[HostCopy], *, redacted: bool) -> None:
    """Whole or not at all."""
    from perfmon.sources.remote import manifest, redact

    listed, folder = parts / _MANIFEST, parts / ".redacted" if redacted else parts
    if redacted:
        copies = [replace(copy, logs=[redact(parts, log, folder) for log in copy.logs]) for copy in copies]
    listed.write_text(manifest(copies, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), __version__))
    with replacing(output) as file, tarfile.open(fileobj=file, mode="w:gz", compresslevel=6) as archive:
        archive.add(listed, _MANIFEST)
        for log in sorted((log for copy in copies for log in copy.logs), key=lambda log: log.file):
            archive.add(folder / log.file, log.file, recursive=False)
