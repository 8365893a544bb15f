"""`perfmon profile`: traces of PyTorch's profiler and of Nsight Systems."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from perfmon.core import ExitCode

from ._options import ProgressBar, completes_files, seconds
from ._screen import check_keys, need_terminal, themes_for

if TYPE_CHECKING:
    from perfmon.profile import Profile

DESCRIPTION = """\
Analyze profiler traces: of every GPU the time it computes, communicates, copies and is idle; what the idle time waits
for (late launches, other kernels, other streams); long gaps with what the host did in them; waits for the DataLoader
that nothing hides; synchronisation on an idle GPU; copies from pageable memory; the rank that the others wait for in
collectives.

FILE is a trace of PyTorch's profiler (*.json, *.json.gz), an export of Nsight Systems (nsys export --type sqlite), or a
folder of them, one of each rank."""
EXAMPLE = "perfmon profile traces/"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    completes_files(
        parser.add_argument("paths", metavar="FILE", nargs="+", type=Path, help="trace, or folder of traces")
    )
    parser.add_argument(
        "--gap", metavar="TIME", type=seconds, default=0.001, help="list gaps from this length on (default: 1 ms)"
    )
    parser.add_argument(
        "--engine",
        metavar="NAME",
        default="local",
        help="local (default), or ray[=HOST:PORT] to read the traces on an existing Ray cluster whose nodes see them",
    )
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print the report as JSON")
    output.add_argument("--tui", action="store_true", help="open a timeline of the GPUs in the terminal")
    output.add_argument("--markdown", action="store_true", help="print the report as Markdown")


def run(args: argparse.Namespace) -> int:
    """Reads, evaluates and reports."""
    from perfmon.cluster import RayCluster
    from perfmon.profile import read_profile
    from perfmon.reports import profile_document, profile_markdown, profile_text

    if args.tui:
        need_terminal("--tui needs a terminal (without one: leave it out, or --json, --markdown)")
    cluster = RayCluster.of_option(args.engine)
    with ProgressBar("reading traces") as bar:
        found = read_profile(args.paths, round(args.gap * 1e9), bar, cluster=cluster, pictures=args.tui)
    if args.tui:
        return _open(args, found)
    if args.json:
        sys.stdout.write(json.dumps(profile_document(found), indent=2, allow_nan=False) + "\n")
    else:
        sys.stdout.write(profile_markdown(found) if args.markdown else profile_text(found))
    return ExitCode.DONE


def _open(args: argparse.Namespace, found: Profile) -> int:
    """Show the timeline until the user leaves it."""
    from perfmon.core import load_config, plain
    from perfmon.textgraphics import glyphs_for
    from perfmon.tui import AppOptions, ProfileApp

    config = load_config()
    check_keys(config)
    themes, theme = themes_for(config, None)
    name = plain(args.paths[0].name or str(args.paths[0]), 60)
    title = name if len(args.paths) == 1 else f"{name} and {len(args.paths) - 1} more"
    app = ProfileApp(found, AppOptions(title, themes, theme, "auto", config.keys, glyphs_for(os.environ)))
    code = app.run()
    if app.fault is not None:
        raise app.fault
    return code or ExitCode.DONE
