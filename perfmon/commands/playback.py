"""`perfmon replay` and `perfmon demo`: a recording, or the built-in run, on the screen."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from perfmon.core import ExitCode, UsageError, plain

from ._options import Offered, add_data_arguments, add_speed_argument, completes_files, read_config
from ._screen import add_screen_arguments, open_screen

if TYPE_CHECKING:
    from perfmon.monitor import Feed


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
        return open_screen(
            args,
            config,
            title=f"replay {args.recording.name}",
            specs=(str(args.recording),),
            feed=lambda: RecordingFeed(player),
            announce=False,
            note=lambda: recording.note,
        )


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
        from perfmon.demo import demo_timeline
        from perfmon.sources import Player

        if args.list:
            from perfmon.demo import SCENARIOS

            print("".join(f"{name:<24}{scenario.title}\n" for name, scenario in SCENARIOS.items()), end="")
            return ExitCode.DONE
        config = read_config(args)
        if not args.ahead >= 0:  # nan is neither
            raise UsageError(f"--ahead {args.ahead:g}: expected 0 or more seconds")
        player = Player(demo_timeline(args.scenario, args.seed, args.minutes), speed=args.speed, linger=True)
        player.seek(min(args.ahead, 60 * args.minutes))

        def feed() -> Feed:
            from perfmon.monitor import PlayerFeed  # not before the first frame is on the screen

            return PlayerFeed(player)

        return open_screen(args, config, title=f"demo {args.scenario}", specs=(f"demo-{args.scenario}",), feed=feed)
