"""`perfmon watch`: the live monitor."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from .arguments import add_baseline_argument, add_data_arguments, add_formats_argument, completes_files, read_config
from .reach import add_reach_arguments, connect, feed_of, split
from .screen import add_screen_arguments, need_terminal, open_screen, own_keyboard

if TYPE_CHECKING:
    from perfmon.monitor import Feed

DESCRIPTION = """\
Opens the live monitor: what the logs hold already is read first, then they are followed. It says where the time goes,
with the lines that prove it; nothing in the run has to change, and nothing is written but what you ask for.

A SPEC is a file, a folder (also of logs that appear later), a quoted glob, or - for a pipe. On another machine it is
ssh://user@host/path or user@host:/path.
`perfmon SPEC...` does the same."""
EXAMPLE = "perfmon watch outputs/run/logs"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    completes_files(parser.add_argument("spec", metavar="SPEC", nargs="+", help="what to watch"))
    add_screen_arguments(parser)
    parser.add_argument(
        "--no-history", action="store_true", help="begin with what is written from now on, not with what is there"
    )
    parser.add_argument("--polling", action="store_true", help="look at the files every 0.25 s, without inotify")
    add_baseline_argument(parser)
    add_reach_arguments(parser)
    add_formats_argument(parser)
    add_data_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Opens the screen."""
    config = read_config(args)
    local, remote = split(args.spec)  # a wrong one is told before the screen opens
    title = " ".join("stdin" if spec == "-" else spec for spec in args.spec)
    own_keyboard(args.spec)
    if remote:
        need_terminal()
    fleet = connect(args, remote, history=0 if args.no_history else args.history) if remote else None

    def feed() -> Feed:
        history, polling = not args.no_history, args.polling or None
        if fleet is not None:
            return feed_of(fleet, local, history=history, polling=polling)
        from perfmon.monitor import FollowFeed  # not before the first frame is on the screen

        return FollowFeed(local, history=history, polling=polling)

    return open_screen(args, config, title=title, specs=tuple(args.spec), feed=feed)
