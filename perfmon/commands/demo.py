"""`perfmon demo`: a built-in run on the screen."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from perfmon.core import UsageError

from ._options import Offered, add_data_arguments, add_formats_argument, read_config, speed
from ._screen import add_screen_arguments, open_screen

if TYPE_CHECKING:
    from perfmon.monitor import Feed

DESCRIPTION = """\
Open the live monitor on a simulated run of asynchronous RL: orchestrator, inference server and trainer, healthy or with
a bottleneck. No GPU is needed. The same seed gives the same run."""
EXAMPLE = "perfmon demo slow-weight-load --speed 20"
_SPEED = 20.0
_AHEAD_S = 600.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    from perfmon.demo import SCENARIOS

    named = ", ".join(SCENARIOS)
    parser.add_argument(
        "scenario",
        metavar="SCENARIO",
        nargs="?",
        default="frontend-queue",
        choices=Offered(lambda: SCENARIOS),
        help=f"one of: {named}",
    )
    parser.add_argument(
        "--speed", metavar="X", type=speed, default=_SPEED, help="speed as a factor of real time (default: 20)"
    )
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="random seed (default: 0)")
    parser.add_argument(
        "--minutes", metavar="N", type=float, default=60.0, help="length of the run in minutes (default: 60)"
    )
    parser.add_argument(
        "--ahead",
        metavar="SECONDS",
        type=float,
        default=_AHEAD_S,
        help="seconds of history when the screen opens (default: 600)",
    )
    add_screen_arguments(parser)
    add_formats_argument(parser)
    add_data_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Opens the screen."""
    from perfmon.demo import demo_timeline
    from perfmon.sources import Player

    config = read_config(args)
    if not args.ahead >= 0:  # nan is neither
        raise UsageError(f"--ahead {args.ahead:g}: expected 0 or more seconds")
    player = Player(demo_timeline(args.scenario, args.seed, args.minutes), speed=args.speed, linger=True)
    player.seek(min(args.ahead, 60 * args.minutes))

    def feed() -> Feed:
        from perfmon.monitor import PlayerFeed  # not before the first frame is on the screen

        return PlayerFeed(player)

    return open_screen(args, config, title=f"demo {args.scenario}", specs=(f"demo-{args.scenario}",), feed=feed)
