"""What commands share that reach other machines: which SPECs are there, options, questions on the terminal."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from perfmon.errors import InputError, UsageError
from perfmon.text import plain

if TYPE_CHECKING:
    from perfmon.monitor import Feed
    from perfmon.sources.files import LogFile
    from perfmon.sources.remote.address import RemoteSpec
    from perfmon.sources.remote.fleet import Fleet
    from perfmon.sources.remote.http import Url

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)
HISTORY = 64 << 20
"""Bytes of each log there that are read of what is there already, unless told otherwise."""


def add_reach_arguments(parser: argparse.ArgumentParser) -> None:
    """What connecting and reading over a network needs."""
    parser.add_argument(
        "--history",
        metavar="SIZE",
        type=size,
        default=HISTORY,
        help="the most that is read of what each remote log holds already (200M; all; default: 64M)",
    )
    add_login_arguments(parser)


def add_login_arguments(parser: argparse.ArgumentParser) -> None:
    """What connecting needs."""
    parser.add_argument(
        "--accept-new", action="store_true", help="trust, and remember, keys of hosts that were never seen"
    )
    parser.add_argument("--ssh-config", metavar="FILE", type=Path, help="configuration of ssh (default: ~/.ssh/config)")


def size(text: str) -> int | None:
    """A size such as `64M`, for argparse; None for `all`."""
    if text.strip().lower() == "all":
        return None
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"expected a size such as 64M or 2G, or all, not {text!r}")
    return int(float(match[1]) * 1024.0 ** " KMGT".index(match[2].upper() or " "))


def split(specs: Sequence[str]) -> tuple[list[str], list[RemoteSpec]]:
    """(SPECs on this machine, SPECs on others). Raises UsageError for a wrong one of either kind."""
    from perfmon.sources.remote.address import parse_remote
    from perfmon.sources.spec import parse_spec

    local: list[str] = []
    remote: list[RemoteSpec] = []
    for text in specs:
        there = parse_remote(text)
        if there is not None:
            remote.append(there)
        else:
            parse_spec(text)
            local.append(text)
    return local, remote


def wanted(hosts: list[str], logs: list[str]) -> list[RemoteSpec]:
    """What is to be followed on which host. Raises UsageError."""
    from perfmon.sources.remote.address import RemoteSpec, at_home, parse_host

    addresses = [parse_host(host) for host in hosts]
    paths = [at_home(log) for log in logs]
    if not all(paths):
        raise UsageError("--log: name a file, folder or 'glob' on the host")
    return [RemoteSpec(address.shown, address, path) for address in addresses for path in paths or [""]]


def connect(
    args: argparse.Namespace,
    remote: Sequence[RemoteSpec],
    *,
    history: int | None,
    checks: Sequence[Url] = (),
) -> Fleet:
    """Connects to the hosts, asking on the terminal for what is missing. Raises ConnectError when none answers.

    Where no path is named on a host, what runs there is looked for.
    """
    from perfmon.sources.remote.discovery import find_logs
    from perfmon.sources.remote.fleet import Fleet, FleetOptions

    config = (str(args.ssh_config),) if args.ssh_config is not None else None
    options = FleetOptions(
        history=history,
        ask=ask if can_ask() else None,
        accept_new=args.accept_new,
        config=config,
        checks=tuple(checks),
        finder=find_logs,
    )
    if args.ssh_config is not None and not args.ssh_config.is_file():
        raise UsageError(f"{args.ssh_config}: no such file (--ssh-config)")
    fleet = Fleet(remote, options)
    fleet.open()
    for failure in fleet.failures:
        print(f"perfmon: {failure}{'' if failure.cause.final else ' (it is tried again)'}", file=sys.stderr)
    for state in fleet.states:
        if state.phase == "connecting":
            print(f"perfmon: {state.name}: no answer yet (it is waited for)", file=sys.stderr)
    return fleet


@contextmanager
def fetched(args: argparse.Namespace, remote: Sequence[RemoteSpec]) -> Iterator[list[LogFile]]:
    """Copies of remote logs, under their own names, until the end of the context. Raises ConnectError."""
    if not remote:
        yield []
        return
    from tempfile import TemporaryDirectory

    from perfmon.errors import ConnectError
    from perfmon.sources.files import LogFile, log_file

    from .progress import ReadingBar

    if not all(spec.path for spec in remote):
        raise UsageError("name the logs on the host: ssh://user@host/path")
    with TemporaryDirectory(prefix="perfmon-") as folder:
        fleet = connect(args, remote, history=None)
        try:
            with ReadingBar("copying logs") as bar:
                copies, failures = fleet.fetch(Path(folder), bar)
        finally:
            fleet.close()
        if failures:
            raise ConnectError(str(failures[0]))
        logs: list[LogFile] = []
        for copy in copies:
            for problem in copy.problems:
                print(f"perfmon: {problem}", file=sys.stderr)
            for log in copy.logs:
                here = log_file(Path(folder, log.file))
                logs.append(LogFile(plain(f"{copy.host}:{log.path}"), here.path, None, here.compression))
        if not logs:
            raise InputError("no such logs on the hosts (perfmon ssh HOST --dry-run says what is there)")
        yield logs


def feed_of(fleet: Fleet, local: Sequence[str], *, history: bool = True, polling: bool | None = None) -> Feed:
    """What connected hosts print, and logs on this machine."""
    from perfmon.monitor import FollowFeed
    from perfmon.monitor.remote import RemoteFeed

    return RemoteFeed(fleet, FollowFeed(local, history=history, polling=polling) if local else None)


def can_ask() -> bool:
    """Whether there is a terminal on which somebody can be asked, whatever stdin and stdout are."""
    try:
        with open("/dev/tty", "rb"):
            return True
    except OSError:
        return False


def ask(prompt: str, echo: bool) -> str | None:
    """Asks on the terminal; None where the answer is the end of input. Raises KeyboardInterrupt."""
    import getpass

    try:
        if not echo:
            return getpass.getpass(prompt)
        with open("/dev/tty", "r+b", buffering=0) as terminal:
            terminal.write(prompt.encode())
            line = terminal.readline()
            return line.decode(errors="replace").rstrip("\n") if line else None
    except (EOFError, OSError):
        return None
