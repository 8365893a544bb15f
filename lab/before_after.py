"""The same load with the pool shared and with a client of its own for updates, then `perfmon compare`.

`make before-after` runs it; the folder with both runs stays where `--out` says.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from .command_line import duration, in_order
from .conductor import Lab, memory, run_together
from .plan import Plan

FAULT = "shared-pool"
LOAD: Mapping[str, object] = {"load_mib_s": 64.0}
"""The engine stands still while it reads weights, and updates that do not wait come twice as often: reading is short in
both runs, so that what they generate differs by the queue alone.
"""
DEDICATED: Mapping[str, object] = {"shared_admin": False}


def main(argv: list[str] | None = None) -> int:
    """The exit status of the comparison: 1 where a criterion is not met, or the lab could not run."""
    parser = argparse.ArgumentParser(prog="python -m lab.before_after", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=duration, default=90.0, help="how long each run takes (default: 90)")
    parser.add_argument("--out", type=Path, help="a folder for before/ and after/ (default: one that is not kept)")
    requests = parser.parse_args(argv)
    return in_order(lambda: _run(requests.out, requests.seconds))


def _run(out: Path | None, seconds: float) -> int:
    if out is not None:
        return _compare(out, seconds)
    with tempfile.TemporaryDirectory(prefix="lab-", dir=memory()) as folder:
        return _compare(Path(folder), seconds)


def _compare(out: Path, seconds: float) -> int:
    """Both at the same time, so that both have the same machine."""
    before = Plan(out=str(out / "before"), seed=1, seconds=seconds, faults=(FAULT,), turns=LOAD)
    after = Plan(out=str(out / "after"), seed=1, seconds=seconds, faults=(FAULT,), turns={**LOAD, **DEDICATED})
    run_together([Lab(before), Lab(after)])
    command = [sys.executable, "-m", "perfmon", "compare", "--fail-on", "criteria"]
    return subprocess.run([*command, "before/logs", "after/logs"], cwd=out, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
