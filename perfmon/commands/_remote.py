"""Shared parts of commands for remote hosts: sources, options, prompts on the terminal."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from perfmon.core import InputError, UsageError, plain

from ._options import ProgressBar, byte_count, warn

if TYPE_CHECKING:
    from perfmon.monitor import Feed
    from perfmon.sources import LogFile, Url
    from perfmon.sources.pollers import PollRequest
    from perfmon.sources.remote import Fleet, RemoteSpec

_INSPECTOR = "nccl="
HISTORY = 64 << 20
"""Bytes of each log there that are read of what is there already, by default."""


def add_reach_arguments(parser: argparse.ArgumentParser) -> None:
    """Options for connecting and reading over a network."""
    about = "history to read of each remote log (200M; all; default: 64M)"
    parser.add_argument("--history", metavar="SIZE", type=size, default=HISTORY, help=about)
    add_login_arguments(parser)


def add_login_arguments(parser: argparse._ActionsContainer) -> None:
    """Options for connecting."""
    parser.add_argument("--accept-new", action="store_true", help="trust and save the keys of unknown hosts")
    about = "ssh configuration file (default: ~/.ssh/config)"
    parser.add_argument("--ssh-config", metavar="FILE", type=Path, help=about)


def add_host_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `HOST...` and the paths on all of them."""
    parser.add_argument("host", metavar="HOST", nargs="+", help="[USER@]HOST[:PORT], as in ~/.ssh/config")
    about = "file, folder or quoted glob on the host, relative to the home folder; repeatable"
    parser.add_argument("--log", metavar="PATH", action="append", default=[], help=about)


def add_polls_argument(parser: argparse.ArgumentParser) -> None:
    """Add the option that turns polling off."""
    parser.add_argument("--no-polls", action="store_true", help="do not poll GPUs and host metrics")


def size(text: str) -> int | None:
    """A size such as `64M`, for argparse; None for `all`."""
    if text.strip().lower() == "all":
        return None
    count = byte_count(text)
    if count is None:
        raise argparse.ArgumentTypeError(f"expected a size such as 64M or 2G, or all, not {text!r}")
    return int(count)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Sources by kind."""

    local: list[str] = field(default_factory=list)
    """Logs on this machine."""
    remote: list[RemoteSpec] = field(default_factory=list)
    """Logs on others."""
    pollers: list[PollRequest] = field(default_factory=list)
    """Pollers of this machine."""
    inspector: list[str] = field(default_factory=list)
    """Folders on this machine with logs of NCCL Inspector."""

    @property
    def collectives(self) -> tuple[str, ...] | None:
        """Local folders with logs of NCCL Inspector; None if there are none on other hosts either."""
        anywhere = self.inspector or any(spec.inspector is not None for spec in self.remote)
        return tuple(self.inspector) if anywhere else None


def sort_specs(specs: Sequence[str], *, polling: bool = True) -> Wanted:
    """Parse the sources, names of pollers included (`polling`). Raises UsageError for an invalid one of any kind."""
    from perfmon.sources import parse_spec
    from perfmon.sources.remote import parse_remote

    found = Wanted()
    for text in specs:
        if text.startswith(_INSPECTOR) and not os.path.lexists(text):
            if not polling:
                where = "watch, snapshot --for and record (complete logs: perfmon nccl DIR)"
                raise UsageError(f"{plain(text, 200)}: supported by {where}")
            _sort_inspector(text.removeprefix(_INSPECTOR), found)
        elif (remote := parse_remote(text)) is not None:
            found.remote.append(remote)
        elif polling and (request := _poller(text)) is not None:
            found.pollers.append(request)
        else:
            parse_spec(text)
            found.local.append(text)
    _check_place([*found.local, *found.inspector])
    return found


def _sort_inspector(place: str, found: Wanted) -> None:
    """Add a folder with logs of NCCL Inspector. Raises UsageError."""
    from perfmon.monitor import INSPECTOR_HISTORY
    from perfmon.sources import parse_spec
    from perfmon.sources.remote import parse_remote

    remote = parse_remote(place)
    if place in ("", "-") or (remote is not None and not remote.path):
        raise UsageError("nccl=: name the folder of the logs, such as nccl=DIR or nccl=user@host:/DIR")
    if remote is not None:
        found.remote.append(replace(remote, inspector=INSPECTOR_HISTORY))
    else:
        parse_spec(place)
        found.inspector.append(place)


def _poller(text: str) -> PollRequest | None:
    from perfmon.sources.pollers import parse_request

    return None if os.path.lexists(os.path.expanduser(text)) else parse_request(text)


def _check_place(local: Sequence[str]) -> None:
    """Raises UsageError where a name means nothing, because the folder that one is in was removed."""
    named = [spec for spec in local if spec != "-" and not os.path.isabs(os.path.expanduser(spec))]
    try:
        os.getcwd()
    except OSError:
        if named:
            raise UsageError(f"{named[0]}: the current folder was deleted (cd to another one)") from None


def requested_pollers(wanted: Wanted, no_polls: bool) -> tuple[PollRequest, ...]:
    """Pollers of this machine in the live monitor: the named ones, and GPUs and host if it has logs.

    Raises UsageError where that is both wanted and not.
    """
    from perfmon.sources.pollers import DEFAULT

    if no_polls and wanted.pollers:
        raise UsageError(f"--no-polls: {wanted.pollers[0].shown} conflicts with it: remove one of them")
    if no_polls or (wanted.remote and not wanted.local and not wanted.inspector):
        return tuple(wanted.pollers)
    return (*DEFAULT, *wanted.pollers)


def wanted(hosts: list[str], logs: list[str]) -> list[RemoteSpec]:
    """Paths to follow, by host. Raises UsageError."""
    from perfmon.sources.remote import RemoteSpec, at_home, parse_host

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
    pollers: Sequence[PollRequest] = (),
    again: bool = True,
) -> Fleet:
    """Connect to the hosts, with prompts on the terminal for what is missing. Raises ConnectError when none answers.

    Where no path is named on a host, what runs there is looked for. `again`: who cannot be reached is tried again;
    else all are waited for until they are connected or have failed, and prompted for what is missing.
    """
    from perfmon.sources.remote import Fleet, FleetOptions, find_logs

    config = (str(args.ssh_config),) if args.ssh_config is not None else None
    options = FleetOptions(
        history=history,
        ask=prompt_user if is_interactive() else None,
        accept_new=args.accept_new,
        config=config,
        checks=tuple(checks),
        requests=tuple(pollers),
        finder=find_logs,
        patient=not again,
    )
    if args.ssh_config is not None and not args.ssh_config.is_file():
        raise UsageError(f"{args.ssh_config}: no such file (--ssh-config)")
    fleet = Fleet(remote, options)
    fleet.open()
    for failure in fleet.failures if again else ():
        warn(f"{failure}{'' if failure.cause.final else ' (retrying)'}")
    for name in fleet.pending_hosts:
        warn(f"{name}: no answer yet (waiting)")
    return fleet


def print_missing(fleet: Fleet) -> None:
    """Names what was wanted of hosts that were connected, and never was there."""
    for host in fleet.hosts:
        tails = host.logs.tails.values()
        names = [tail.log.name for tail in tails if tail.changed_s is None]
        if not tails and host.logs.caught_up:
            names = [f"{host.address.shown}:{plain(path, 200)}" for path in host.logs.paths]
        for name in names:
            warn(f"{name}: no such log (perfmon ssh HOST --dry-run lists what is there)")


@contextmanager
def fetched(args: argparse.Namespace, remote: Sequence[RemoteSpec]) -> Iterator[list[LogFile]]:
    """Copies of remote logs, under their own names, until the end of the context. Raises ConnectError."""
    if not remote:
        yield []
        return
    from tempfile import TemporaryDirectory

    from perfmon.core import ConnectError
    from perfmon.sources import LogFile, log_file

    if not all(spec.path for spec in remote):
        raise UsageError("name the logs on the host: ssh://user@host/path")
    with TemporaryDirectory(prefix="perfmon-") as folder:
        fleet = connect(args, remote, history=None, again=False)
        try:
            with ProgressBar("copying logs") as bar:
                copies, failures = fleet.fetch(Path(folder), bar)
        finally:
            fleet.close()
        if failures:
            raise ConnectError(str(failures[0]))
        unfound = [line for copy in copies for line in copy.unfound]
        if unfound:
            more = f", and {len(unfound) - 1} more" if len(unfound) > 1 else ""
            raise InputError(f"{unfound[0]}{more} (perfmon ssh HOST --dry-run lists what is there)")
        logs: list[LogFile] = []
        for copy in copies:
            for problem in copy.problems:
                warn(problem)
            for log in copy.logs:
                here = log_file(Path(folder, log.file))
                logs.append(LogFile(plain(f"{copy.host}:{log.path}"), here.path, None, here.compression))
        if not logs:
            raise InputError("none of the logs could be read")
        yield logs


def feed_of(
    fleet: Fleet | None,
    local: Sequence[str],
    *,
    history: bool = True,
    polling: bool | None = None,
    pollers: Sequence[PollRequest] = (),
    inspector: Sequence[str] | None = None,
) -> Feed:
    """Items of connected hosts, of local logs, and of local pollers.

    `inspector` are local folders with logs of NCCL Inspector; None if there are none on other hosts either.
    """
    from perfmon.monitor import FollowFeed, HistoryTaggedFeed, InspectorFeed, PollingFeed, RemoteFeed

    logs = FollowFeed(local, history=history, polling=polling)
    feed: Feed | None = logs if local else None
    if pollers:
        feed = PollingFeed(feed, pollers, lambda: places_of(local))
    if fleet is not None:
        feed = RemoteFeed(fleet, feed)
    if inspector is not None:
        feed = InspectorFeed(feed, inspector, history=history, polling=polling)
    return HistoryTaggedFeed(feed or logs)


def places_of(specs: Sequence[str]) -> dict[str, str]:
    """The folders in which logs lie: their disks matter."""
    found: dict[str, str] = {}
    for spec in specs:
        path = os.path.abspath(os.path.expanduser(re.split(r"[*?\[]", spec, maxsplit=1)[0] or "."))
        if spec != "-":
            found[path if os.path.isdir(path) else os.path.dirname(path)] = "logs"
    return found


def is_interactive() -> bool:
    """Return true if there is a terminal for prompts, regardless of stdin and stdout."""
    try:
        with open("/dev/tty", "rb"):
            return True
    except OSError:
        return False


def prompt_user(prompt: str, echo: bool) -> str | None:
    """Prompt on the terminal; None where the answer is the end of input. Raises KeyboardInterrupt."""
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
