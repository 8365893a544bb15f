"""The commands that open the live monitor: `watch`, `ssh`, `replay` of a recording, `demo` of a simulated run."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from perfmon.core import ExitCode, InputError, PerfmonError, UsageError, evidence_text, plain, without_secrets

from ._options import (
    Offered,
    add_baseline_argument,
    add_data_arguments,
    add_sources_argument,
    add_speed_argument,
    completes_files,
    read_config,
    several_runs,
    warn,
)
from ._remote import (
    Wanted,
    add_host_arguments,
    add_polls_argument,
    add_reach_arguments,
    connect,
    feed_of,
    requested_pollers,
    sort_specs,
    wanted,
)
from ._screen import (
    Screen,
    SourceCheck,
    add_hang_source_arguments,
    add_screen_arguments,
    hang_sources,
    need_terminal,
    own_keyboard,
)

if TYPE_CHECKING:
    from perfmon.monitor import Feed
    from perfmon.sources.pollers import PollRequest
    from perfmon.sources.remote import Fleet

    from ._remote import Wanted


class Watch:
    """The command `watch`."""

    DESCRIPTION = """\
Open the live monitor: read the existing log history, then follow the logs. It shows where the time goes, with the log
lines as evidence. The run needs no changes, and nothing is written unless requested.

A SOURCE is a file, a folder (including logs that appear later), a quoted glob, or - for a pipe; for a remote host,
ssh://user@host/path or user@host:/path. GPUs and the host are polled by default. Other sources: gpu, host, net:PORT,
vllm=URL, sglang=URL, prometheus=URL, ray[=ADDRESS], slurm, command:'...', nccl=DIR (logs of NCCL Inspector, also
nccl=user@host:/DIR).
`perfmon SOURCE...` does the same, but lists the runs of a folder that holds several (`perfmon runs FOLDER`), which
`perfmon watch FOLDER` watches together as one."""
    EXAMPLE = "perfmon watch outputs/run/logs"

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        add_sources_argument(parser, "logs and other sources to watch")
        add_screen_arguments(parser)
        parser.add_argument("--no-history", action="store_true", help="skip existing content and read only new lines")
        parser.add_argument(
            "--polling", action="store_true", help="check the files every 0.25 s instead of using inotify"
        )
        add_polls_argument(parser)
        add_baseline_argument(parser)
        add_hang_source_arguments(parser)
        add_reach_arguments(parser)
        add_data_arguments(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        config = read_config(args)
        wanted = sort_specs(args.spec)  # a wrong one is reported before the screen opens
        pollers = requested_pollers(wanted, args.no_polls)
        hang = hang_sources(args)
        here = os.path.basename(os.getcwd()) or "."
        names = {"-": "stdin", ".": here, "./": here}
        title = " ".join(names.get(spec) or without_secrets(spec) for spec in args.spec)
        own_keyboard(args.spec)
        fleet = _connected(args, wanted) if wanted.remote else None

        def feed() -> Feed:
            # Nothing of it is loaded before the first frame is on the screen.
            return feed_of(
                fleet, wanted.local, history=not args.no_history, polling=args.polling or None, pollers=pollers,
                inspector=wanted.collectives,
            )  # fmt: skip

        again = fleet is None and "-" not in args.spec
        check = cache(partial(_source_check, wanted.local))
        screen = Screen(args=args, title=title, specs=args.spec, feed=feed, check=check, hang=hang, again=again)
        return screen.open(config)


def _source_check(specs: Sequence[str]) -> SourceCheck:
    from perfmon.sources import discover

    try:
        logs = discover([spec for spec in specs if spec != "-"])
    except PerfmonError as error:
        return SourceCheck(unfound=plain(str(error), 300))
    note = several_runs(specs, logs)
    return SourceCheck(note, together=bool(note))


def _connected(args: argparse.Namespace, wanted: Wanted) -> Fleet:
    from perfmon.sources.pollers import DEFAULT

    need_terminal()
    pollers = () if args.no_polls else DEFAULT
    return connect(args, wanted.remote, history=0 if args.no_history else args.history, pollers=pollers)


class Ssh:
    """The command `ssh`."""

    DESCRIPTION = """\
Open the live monitor on runs on remote hosts. Nothing is installed there and nothing is left behind: a POSIX shell and
coreutils, or BusyBox, are enough. ~/.ssh/config, the agent, keys and known_hosts are used as by ssh; passwords and
passphrases are requested before the screen opens. Lost connections are re-established, and each log resumes where it
stopped.

Without --log, perfmon discovers running processes and their logs; --dry-run only lists what it found.
Exit code 3: no host could be reached."""
    EXAMPLE = "perfmon ssh ubuntu@gpu-1 ubuntu@gpu-2 --log '~/outputs/**/logs/latest/*.log'"

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        add_host_arguments(parser)
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
            help="also poll this on every host: gpu, host, net:PORT, vllm=URL, prometheus=URL, slurm, "
            "command:'...' ...",
        )
        add_polls_argument(parser)
        parser.add_argument(
            "--dry-run", action="store_true", help="list the processes and logs found, with reasons, and exit"
        )
        add_reach_arguments(parser)
        add_screen_arguments(parser)
        add_data_arguments(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        from perfmon.sources import parse_url
        from perfmon.sources.remote import FOUND_S

        config = read_config(args)
        specs = wanted(args.host, args.log)
        checks, pollers = [parse_url(url) for url in args.check], _pollers(args)
        if not args.dry_run:
            need_terminal()
        fleet = connect(args, specs, history=args.history, checks=checks, pollers=pollers)
        try:
            if args.dry_run or not args.log:
                where, grace_s = (sys.stdout, _PATIENCE_S) if args.dry_run else (sys.stderr, FOUND_S)
                logs = _print_found(fleet, where, polling=not args.no_polls, grace_s=grace_s)
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

        return Screen(args=args, title=" ".join(names), specs=names, feed=feed).open(config)


_PATIENCE_S = 10.0
"""So long a dry run waits for hosts that are slower than the first."""


def _pollers(args: argparse.Namespace) -> list[PollRequest]:
    """Pollers of all hosts. Raises UsageError."""
    from perfmon.sources.pollers import DEFAULT, FORMS, parse_request

    if args.no_polls and args.poll:
        raise UsageError("--no-polls conflicts with --poll: remove one of them")
    pollers = [] if args.no_polls else [*DEFAULT]
    for spec in args.poll:
        one = parse_request(spec)
        if one is None:
            raise UsageError(f"--poll {evidence_text(spec, 200)}: expected one of {FORMS}")
        pollers.append(one)
    return pollers


def _print_found(fleet: Fleet, where: TextIO, *, polling: bool, grace_s: float) -> bool:
    """Print what was found on the hosts that answer, and poll their metrics; true if there are, or may be, logs.

    Raises ConnectError when no host answers.
    """
    from perfmon.sources.pollers import requests_for
    from perfmon.sources.remote import describe

    any_logs = False
    for one in fleet.discover(grace_s):
        if one.what is None:
            warn(f"{one.problem}")
            any_logs = True
            continue
        print("\n".join(describe(one.host, one.what)), file=where, flush=True)
        any_logs = any_logs or bool(one.what.logs)
        if polling:
            fleet.add_pollers(one.host, requests_for(one.what))
    return any_logs


class Replay:
    """The command `replay`."""

    DESCRIPTION = """\
Play a recording in the live monitor: in real time, faster, slower, paused, from any position. It shows the same
findings as the live monitor did."""
    EXAMPLE = "perfmon replay run.pmrec --speed 10"

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        about = "recording made by perfmon record"
        completes_files(parser.add_argument("recording", metavar="FILE", type=Path, help=about))
        add_speed_argument(parser, 1.0)
        parser.add_argument("--paused", action="store_true", help="start paused")
        add_screen_arguments(parser)
        add_data_arguments(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        from perfmon.core import InputError
        from perfmon.monitor import RecordingFeed
        from perfmon.recording import open_recording
        from perfmon.sources import Player, timeline_of

        config = read_config(args)
        recording = open_recording(args.recording)
        if not recording.frame_count:
            name = plain(str(args.recording))
            raise InputError(recording.note or f"{name}: empty recording: nothing to play")
        player = Player(timeline_of(recording), speed=args.speed, paused=args.paused, linger=True)
        name, specs = f"replay {args.recording.name}", (str(args.recording),)

        def check() -> SourceCheck:
            return SourceCheck(recording.note or "")  # damage is found where it is played

        feed = partial(RecordingFeed, player)
        return Screen(args=args, title=name, specs=specs, feed=feed, check=check, announce=False).open(config)


class Demo:
    """The command `demo`."""

    DESCRIPTION = """\
Open the live monitor on a simulated run of asynchronous RL: orchestrator, inference server and trainer, healthy or with
a bottleneck. No GPU is needed. The same seed gives the same run."""
    EXAMPLE = "perfmon demo slow-weight-load --speed 20"

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        from perfmon.demo import SCENARIOS

        about = f"one of: {', '.join(SCENARIOS)}"
        default, choices = "frontend-queue", Offered(lambda: SCENARIOS)
        parser.add_argument("scenario", metavar="SCENARIO", nargs="?", default=default, choices=choices, help=about)
        parser.add_argument("--list", action="store_true", help="print the runs that can be simulated, and exit")
        add_speed_argument(parser, 20.0)
        parser.add_argument("--seed", metavar="N", type=int, default=0, help="random seed (default: 0)")
        about = "length of the run in minutes (default: 60)"
        parser.add_argument("--minutes", metavar="N", type=float, default=60.0, help=about)
        about = "seconds of history when the screen opens (default: 600)"
        parser.add_argument("--ahead", metavar="SECONDS", type=float, default=600.0, help=about)
        add_screen_arguments(parser)
        add_data_arguments(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        from perfmon.demo import SCENARIOS, scenario_of

        if args.list:
            print("".join(f"{name:<24}{scenario.title}\n" for name, scenario in SCENARIOS.items()), end="")
            return ExitCode.DONE
        config = read_config(args)
        if not args.ahead >= 0:  # nan is neither
            raise UsageError(f"--ahead {args.ahead:g}: expected 0 or more seconds")
        scenario_of(args.scenario, args.minutes)  # wrong arguments are reported before the screen opens

        def feed() -> Feed:
            from perfmon.demo import demo_timeline  # not before the first frame is on the screen
            from perfmon.monitor import PlayerFeed
            from perfmon.sources import Player

            player = Player(demo_timeline(args.scenario, args.seed, args.minutes), speed=args.speed, linger=True)
            player.seek(min(args.ahead, 60 * args.minutes))
            return PlayerFeed(player)

        screen = Screen(args=args, title=f"demo {args.scenario}", specs=(f"demo-{args.scenario}",), feed=feed)
        return screen.open(config)
