"""Runs it, prints the figures, and writes them into docs/reliability.md where that is wanted."""

from __future__ import annotations

import argparse
from pathlib import Path

from .figures import figures_of, write_page, wrong
from .run import played


def main() -> int:
    """Returns 1 where a figure is not what it must be."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=7, help="of all that happens by chance (default: 7)")
    parser.add_argument("--minutes", type=float, default=2.0, help="for how long it happens (default: 2)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="a new folder in which all files stay")
    parser.add_argument("--page", action="store_true", help="write the figures into docs/reliability.md")
    args = parser.parse_args()
    outcome = played(args.seed, args.minutes, args.keep)
    for figure in figures_of(outcome):
        print(f"{figure.value!s:>10}  {figure.name}")
    for took_s, name in outcome.slowest:
        print(f"{took_s:9.1f}s  {name}")
    print("missed by the exporter:", dict(outcome.missed))
    print(*wrong(outcome), sep="\n")
    if args.page:
        write_page(outcome)
    return 1 if wrong(outcome) else 0
