"""`perfmon ssh`: the live monitor of runs on other machines."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, TextIO

from perfmon.core import ExitCode, InputError, UsageError, plain, without_secrets

from ._options import add_data_arguments, add_formats_argument, read_config
from ._remote import add_polls_argument, add_reach_arguments, connect, feed_of, wanted
from ._screen import add_screen_arguments, need_terminal, open_screen

if TYPE_CHECKING:
    from perfmon.monitor import Feed
    from perfmon.sources.pollers import PollRequest
    from perfmon.sources.remote import Fleet

DESCRIPTION = """\
Open the live monitor on runs on remote hosts. Nothing is installed there and nothing is left behind: a POSIX shell and
coreutils, or BusyBox, are enough. ~/.ssh/config, the agent, keys and known_hosts are used as by ssh; passwords and
passphrases are requested before the screen opens. Lost connections are re-established, and each log resumes where it
stopped.

Without --log, perfmon discovers running processes and their logs; --dry-run only lists what it found.
Exit code 3: no host could be reached."""
_PATIENCE_S = 10.0
"""So long a dry run waits for hosts that are slower than the first."""
EXAMPLE = "perfmon ssh ubuntu@gpu-1 ubuntu@gpu-2 --log '~/outputs/**/logs/latest/*.log'"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("host", metavar="HOST", nargs="+", help="[USER@]HOST[:PORT], as in ~/.ssh/config")
    parser.add_argument(
        "--log",
        metavar="PATH",
        action="append",
        default=[],
        help="file, folder or quoted glob on the host, relative to the home folder; repeatable",
    )
    parser.add_argument(
        "--check",
        metavar="URL",
        action="append",
        default=[],
        help="from the host, request http://HOST:PORT/PATH or connect to tcp://HOST:PORT every 5 s",
    )
    parser.add_argument(
        "--poll",
        metavar="SOURCE",
        action="append",
        default=[],
        help="also poll this on every host: gpu, host, net:PORT, vllm=URL, prometheus=URL, slurm, command:'...' ...",
    )
    add_polls_argument(parser)
    parser.add_argument(
        "--dry-run", action="store_true", help="list the processes and logs found, with reasons, and exit"
    )
    add_reach_arguments(parser)
    add_screen_arguments(parser)
    add_formats_argument(parser)
    add_data_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Connects, then opens the screen."""
    from perfmon.sources import parse_url
    from perfmon.sources.remote import FOUND_S

    config = read_config(args)
    specs = wanted(args.host, args.log)
    checks, asked = [parse_url(url) for url in args.check], _asked(args)
    if not args.dry_run:
        need_terminal()
    fleet = connect(args, specs, history=args.history, checks=checks, asked=asked)
    try:
        if args.dry_run or not args.log:
            where, grace_s = (sys.stdout, _PATIENCE_S) if args.dry_run else (sys.stderr, FOUND_S)
            logs = _tell(fleet, where, asking=not args.no_polls, grace_s=grace_s)
            if not (logs or args.poll or args.check):
                raise InputError("no run and no logs found: name the logs with --log")
    except BaseException:
        fleet.close()
        raise
    if args.dry_run:
        fleet.close()
        return ExitCode.DONE
    names = tuple(host.address.shown for host in fleet.hosts)

    def feed() -> Feed:
        return feed_of(fleet, [])

    return open_screen(args, config, title=" ".join(names), specs=names, feed=feed)


def _asked(args: argparse.Namespace) -> list[PollRequest]:
    """Pollers of all hosts. Raises UsageError."""
    from perfmon.sources.pollers import DEFAULT, FORMS, parse_request

    if args.no_polls and args.poll:
        raise UsageError("--no-polls conflicts with --poll: remove one of them")
    asked = [] if args.no_polls else [*DEFAULT]
    for spec in args.poll:
        one = parse_request(spec)
        if one is None:
            raise UsageError(f"--poll {without_secrets(plain(spec, 200))}: expected one of {FORMS}")
        asked.append(one)
    return asked


def _tell(fleet: Fleet, where: TextIO, *, asking: bool, grace_s: float) -> bool:
    """Tells what there is on the hosts that answer; their metrics are asked for too. Whether there are logs, or may be.

    Raises ConnectError when no host answers.
    """
    from perfmon.sources.remote import describe, requests_for

    any_logs = False
    for one in fleet.discover(grace_s):
        if one.what is None:
            print(f"perfmon: {one.problem}", file=sys.stderr, flush=True)
            any_logs = True
            continue
        print("\n".join(describe(one.host, one.what)), file=where, flush=True)
        any_logs = any_logs or bool(one.what.logs)
        if asking:
            fleet.add_pollers(one.host, requests_for(one.what))
    return any_logs
