"""`perfmon collect`: the logs of a run from all of its hosts, in one archive."""

from __future__ import annotations

import argparse
import json
import shutil
import tarfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from perfmon._version import __version__
from perfmon.core import ConnectError, ExitCode, InputError, UsageError, counted, format_bytes, replacing

from ._options import ProgressBar, completes_files, on_disk, warn
from ._remote import add_host_arguments, add_login_arguments, connect, wanted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfmon.sources.remote import HostCopy

DESCRIPTION = """\
Copy the logs of a run from all hosts into one archive for perfmon analyze: one folder per host, and manifest.json with
sizes, SHA-256 and host details. Without --log, the logs of running processes are discovered.

If it is interrupted or the connection drops, partial data stays next to the archive, in FILE.parts; the same command
resumes. The archive contains the logs unchanged, credentials included: only its owner may read it. With --redact,
whatever looks like a credential is stars, and compressed logs are unpacked for that.

Exit code 3: a host could not be reached or was lost; the archive has the logs of the others, and the same command
completes it."""
EXAMPLE = "perfmon collect ubuntu@gpu-1 ubuntu@gpu-2 --log '~/outputs/*/logs' -o bundle.tar.gz"

_MANIFEST = "manifest.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_host_arguments(parser)
    completes_files(
        parser.add_argument("-o", "--output", metavar="FILE", type=on_disk, required=True, help="the archive (.tar.gz)")
    )
    parser.add_argument("--force", action="store_true", help="overwrite an existing archive")
    parser.add_argument("--redact", action="store_true", help="replace credentials in the logs by stars")
    add_login_arguments(parser)


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
