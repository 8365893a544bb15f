"""`perfmon ssh`: the live monitor of runs on other machines."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from perfmon.errors import UsageError

from .arguments import add_data_arguments, add_formats_argument, read_config
from .reach import add_reach_arguments, connect, feed_of
from .screen import add_screen_arguments, need_terminal, open_screen

if TYPE_CHECKING:
    from perfmon.monitor import Feed
    from perfmon.sources.remote.address import RemoteSpec

DESCRIPTION = """\
Opens the live monitor on runs on other machines. Nothing is installed there and nothing is left behind: a POSIX shell
and coreutils, or BusyBox, are enough. ~/.ssh/config, the agent, keys and known_hosts count as they do for ssh; what is
missing is asked for before the screen opens. A lost connection is made again, and each log is read on where it stood.

Without --log, perfmon looks for what runs there, and for the logs that it writes; --dry-run only says what it found.
Exit code 3: no host could be reached."""
EXAMPLE = "perfmon ssh ubuntu@gpu-1 ubuntu@gpu-2 --log '~/outputs/**/logs/latest/*.log'"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("host", metavar="HOST", nargs="+", help="[USER@]HOST[:PORT], as in ~/.ssh/config")
    parser.add_argument(
        "--log",
        metavar="PATH",
        action="append",
        default=[],
        help="a file, folder or quoted glob there, from the home folder on unless absolute; more than once for several",
    )
    add_reach_arguments(parser)
    add_screen_arguments(parser)
    add_formats_argument(parser)
    add_data_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Connects, then opens the screen."""
    config = read_config(args)
    specs = wanted(args.host, args.log)
    need_terminal()
    fleet = connect(args, specs, history=args.history)
    names = tuple(host.address.shown for host in fleet.hosts)

    def feed() -> Feed:
        return feed_of(fleet, [])

    return open_screen(args, config, title=" ".join(names), specs=names, feed=feed)


def wanted(hosts: list[str], logs: list[str]) -> list[RemoteSpec]:
    """What is to be followed on which host. Raises UsageError."""
    from perfmon.sources.remote.address import RemoteSpec, at_home, parse_host

    addresses = [parse_host(host) for host in hosts]
    paths = [at_home(log) for log in logs]
    if not all(paths):
        raise UsageError("--log: name a file, folder or 'glob' on the host")
    return [RemoteSpec(address.shown, address, path) for address in addresses for path in paths or [""]]
