"""`perfmon record`: keeps what logs print, with the moments at which it came, to be replayed or analysed later."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from perfmon.core import ExitCode, InputError, PerfmonError, format_bytes, format_seconds, plain, plural_of
from perfmon.sources.follow import end

from ._options import add_sources_argument, byte_count, completes_files, on_disk, seconds, warn
from ._remote import Wanted, add_reach_arguments, connect, feed_of, sort_specs

if TYPE_CHECKING:
    from perfmon.core import Block, Notice
    from perfmon.recording import RecordingWriter
    from perfmon.sources import LogFile
    from perfmon.sources.remote import Fleet

    from ._remote import Wanted

    Item = tuple[LogFile, Block | Notice]

DESCRIPTION = """\
Follow logs without a screen and record them until stopped. Credentials are masked before they are written, and only the
owner may read the file. After a crash or on a full disk, everything recorded so far stays readable. perfmon analyze
reads a recording like the logs themselves.

Exit codes: 0 if stopped by SIGTERM or --for, or if nothing is left to follow, 130 if stopped by Ctrl+C, 2 if the
recording stopped early (full disk, --max-size). The file is valid in each case."""
EXAMPLE = "perfmon record logs/ -o run.pmrec --for 10m"
_TICK_S = 1.0
_LAST_LOOK_S = 0.4
"""Time to read lines that were printed just before the end."""
_REPORTED = ("gone", "lost", "capped", "unopened")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_sources_argument(parser)
    about = "output file (default: perfmon-DATE-TIME.pmrec)"
    completes_files(parser.add_argument("-o", "--output", metavar="FILE", type=on_disk, help=about))
    parser.add_argument("--for", dest="for_s", metavar="TIME", type=seconds, help="stop after this time (30s, 10m)")
    parser.add_argument("--no-history", action="store_true", help="skip existing content and record only new lines")
    parser.add_argument("--max-size", metavar="SIZE", type=_size, help="stop at this size (500M; default: 2G)")
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")
    add_reach_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from perfmon.recording import MAX_BYTES, SUFFIX, RecordingWriter

    wanted = sort_specs(args.spec)
    path = args.output or Path(f"perfmon-{datetime.now():%Y%m%d-%H%M%S}{SUFFIX}")
    history = 0 if args.no_history else args.history
    fleet = connect(args, wanted.remote, history=history) if wanted.remote else None
    writer = RecordingWriter(path, args.spec, overwrite=args.force, max_bytes=args.max_size or MAX_BYTES)
    recorder = _Recorder(writer)
    try:
        asyncio.run(recorder.record(_items(fleet, wanted, not args.no_history), args.for_s))
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


async def _items(fleet: Fleet | None, wanted: Wanted, history: bool) -> AsyncIterator[Item]:
    """Lines of local and remote logs, and readings of pollers."""
    from perfmon.core import Block, Notice
    from perfmon.monitor import ResetMarker

    feed = feed_of(fleet, wanted.local, history=history, pollers=wanted.pollers, inspector=wanted.collectives)
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

    async def record(self, items: AsyncIterator[Item], for_s: float | None) -> None:
        """Until a signal, the end of the time, of all logs, or of the room on the disk."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # of nohup
                loop.add_signal_handler(number, self._ended.set)
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        following = asyncio.create_task(self._follow(items))
        ended = asyncio.create_task(self._ended.wait())
        try:
            while not following.done() and not ended.done() and not self._writer.failed:
                left = _TICK_S if for_s is None else min(_TICK_S, for_s - self.elapsed_s)
                if left <= 0:
                    break
                await asyncio.wait((following, ended), timeout=left, return_when=asyncio.FIRST_COMPLETED)
                self._tick()
            await asyncio.wait((following,), timeout=0 if self._writer.failed else _LAST_LOOK_S)
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
        from perfmon.core import Notice

        async for log, item in items:
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
