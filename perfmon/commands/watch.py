"""`perfmon watch`: the live monitor."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from perfmon.core import without_secrets

from ._options import add_baseline_argument, add_data_arguments, add_sources_argument, read_config
from ._remote import (
    Wanted,
    add_polls_argument,
    add_reach_arguments,
    connect,
    feed_of,
    requested_pollers,
    sort_specs,
)
from ._screen import (
    add_hang_source_arguments,
    add_screen_arguments,
    hang_sources,
    need_terminal,
    open_screen,
    own_keyboard,
)

if TYPE_CHECKING:
    from perfmon.monitor import Feed
    from perfmon.sources.remote import Fleet

    from ._remote import Wanted

DESCRIPTION = """\
Open the live monitor: read the existing log history, then follow the logs. It shows where the time goes, with the log
lines as evidence. The run needs no changes, and nothing is written unless requested.

A SOURCE is a file, a folder (including logs that appear later), a quoted glob, or - for a pipe; for a remote host,
ssh://user@host/path or user@host:/path. GPUs and the host are polled by default. Other sources: gpu, host, net:PORT,
vllm=URL, sglang=URL, prometheus=URL, ray[=ADDRESS], slurm, command:'...', nccl=DIR (logs of NCCL Inspector, also
nccl=user@host:/DIR).
`perfmon SOURCE...` does the same."""
EXAMPLE = "perfmon watch outputs/run/logs"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_sources_argument(parser, "logs and other sources to watch")
    add_screen_arguments(parser)
    parser.add_argument(
        "--no-history", action="store_true", help="begin with what is written from now on, not with what is there"
    )
    parser.add_argument("--polling", action="store_true", help="check the files every 0.25 s instead of using inotify")
    add_polls_argument(parser)
    add_baseline_argument(parser)
    add_hang_source_arguments(parser)
    add_reach_arguments(parser)
    add_data_arguments(parser)


def run(args: argparse.Namespace) -> int:
    config = read_config(args)
    wanted = sort_specs(args.spec)  # a wrong one is told before the screen opens
    pollers = requested_pollers(wanted, args.no_polls)
    hang = hang_sources(args)
    title = " ".join("stdin" if spec == "-" else without_secrets(spec) for spec in args.spec)
    own_keyboard(args.spec)
    fleet = _connected(args, wanted) if wanted.remote else None

    def feed() -> Feed:
        # Nothing of it is loaded before the first frame is on the screen.
        return feed_of(
            fleet, wanted.local, history=not args.no_history, polling=args.polling or None, pollers=pollers,
            inspector=wanted.collectives,
        )  # fmt: skip

    return open_screen(args, config, title=title, specs=tuple(args.spec), feed=feed, hang=hang)


def _connected(args: argparse.Namespace, wanted: Wanted) -> Fleet:
    from perfmon.sources.pollers import DEFAULT

    need_terminal()
    pollers = () if args.no_polls else DEFAULT
    return connect(args, wanted.remote, history=0 if args.no_history else args.history, pollers=pollers)
