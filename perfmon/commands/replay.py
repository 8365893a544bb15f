"""`perfmon replay`: a recording on the screen."""

from __future__ import annotations

import argparse
from pathlib import Path

from perfmon.core import plain

from ._options import add_data_arguments, add_speed_argument, completes_files, read_config
from ._screen import add_screen_arguments, open_screen

DESCRIPTION = """\
Play a recording in the live monitor: in real time, faster, slower, paused, from any position. It shows the same
findings as the live monitor did."""
EXAMPLE = "perfmon replay run.pmrec --speed 10"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    about = "recording made by perfmon record"
    completes_files(parser.add_argument("recording", metavar="FILE", type=Path, help=about))
    add_speed_argument(parser, 1.0)
    parser.add_argument("--paused", action="store_true", help="start paused")
    add_screen_arguments(parser)
    add_data_arguments(parser)


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
