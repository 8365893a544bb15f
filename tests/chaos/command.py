"""The command: runs it, prints the figures, and writes them into docs/reliability.md where that is wanted."""

from __future__ import annotations

import argparse
from pathlib import Path

from .run import played


def main() -> int:
    """Returns 1 where a figure that a promise is about is not zero."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="a new folder in which all files stay")
    args = parser.parse_args()
    o = played(args.seed, args.minutes, args.keep)
    print(o.written, "lost", +o.lost, "doubled", +o.doubled)
    print("done", dict(o.done))
    print("inputs", dict(o.inputs), o.commands)
    print(o.peak_mb, o.slowest)
    t = o.trouble
    for name in ("crashes", "hangs", "escapes", "secrets", "shell"):
        from collections import Counter

        print("==", name, len(getattr(t, name)))
        for x, n in Counter(getattr(t, name)).most_common(12):
            print("   ", n, x[:700])
    return 0
