"""`perfmon profile`: traces of PyTorch's profiler and of Nsight Systems."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from perfmon.core import ExitCode

from ._options import ProgressBar, completes_files, seconds

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
    output.add_argument("--markdown", action="store_true", help="print the report as Markdown")


def run(args: argparse.Namespace) -> int:
    """Reads, evaluates and reports."""
    from perfmon.cluster import RayCluster
    from perfmon.profile import read_profile
    from perfmon.reports import profile_document, profile_markdown, profile_text

    with ProgressBar("reading traces") as bar:
        found = read_profile(args.paths, round(args.gap * 1e9), bar, cluster=RayCluster.of_option(args.engine))
    if args.json:
        sys.stdout.write(json.dumps(profile_document(found), indent=2, allow_nan=False) + "\n")
    else:
        sys.stdout.write(profile_markdown(found) if args.markdown else profile_text(found))
    return ExitCode.DONE
