"""Runs every fault and judges what perfmon says: `python -m lab.matrix --record` leaves the runs, and docs/accuracy.md.

Without `--record` the runs that are there are judged again; that takes seconds.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from perfmon.core.intervals import REST
from perfmon.rules.activity import LEAST_STALL_S

from .cases import CASES, Case, truly_lost
from .command_line import how_many, in_order
from .conductor import Lab, LabError, memory, run_together
from .evaluation import Judgement, judge
from .recorded import Recorded

ROOT = Path(__file__).parent.parent
RECORDED = ROOT / "tests" / "lab" / "recorded"
IN_TIME_S = 30.0
TOLERANCE = 0.2
_SOON_S = 5.0
_LEAST_S = {"stall": LEAST_STALL_S, "request-cap": 60.0, "host-memory-leak": 300.0}
"""What is none before it has lasted for so long, by definition."""


def bound_s(signature: str) -> float:
    """Seconds within which it must be found, be it soon after it is there by definition."""
    return _LEAST_S[signature] + _SOON_S if signature in _LEAST_S else IN_TIME_S


@dataclass(frozen=True, slots=True)
class Row:
    """What became of one run."""

    case: Case
    judgement: Judgement
    true_lost_s: float
    bites_s: float
    """When the first of the faults began to bite, in seconds since the start."""
    bites: dict[str, float]
    """The same by signature."""
    batches: int
    """Batches of rollouts that the run made."""

    @property
    def right(self) -> bool:
        """The verdict is right, and everything that must be found is."""
        if not self.case.expected:
            return self.judgement.verdict is None
        if self.case.over:
            return self.judgement.verdict is None and all(name in self.judgement.verdict_at for name in self.case.named)
        return self.judgement.verdict in self.case.expected and all(
            name in self.judgement.found for name in self.case.named
        )

    @property
    def called(self) -> str | None:
        """The verdict; of what was over by the end, the first that there was."""
        return self.first if self.case.over else self.judgement.verdict

    @property
    def detected_s(self) -> dict[str, float | None]:
        """Seconds from when a fault bites until it is told; None where it never is."""
        line_of = (
            {**self.judgement.found_at, **self.judgement.verdict_at}
            if len(self.case.expected) == 1
            else self.judgement.found_at
        )
        return {
            name: None if (at := line_of.get(name)) is None else max(0.0, at - self.bites[name])
            for name in self.case.expected
        }

    @property
    def in_time(self) -> bool:
        """All of it within half a minute, or soon after it is there by definition."""
        return all(at is not None and at <= bound_s(name) for name, at in self.detected_s.items())

    @property
    def first(self) -> str | None:
        """The first verdict that there was."""
        return self.judgement.first_verdict(0.0)

    @property
    def right_first(self) -> bool:
        """No verdict stood there before the right one."""
        return self.first is None or self.first in self.case.expected

    @property
    def lost_s(self) -> float:
        """Seconds that perfmon counts as lost to what was switched on."""
        return sum(self.judgement.lost.get(name, 0.0) for name in (*self.case.expected, *self.case.entries))

    @property
    def other_s(self) -> float:
        """Seconds that it counts for anything else."""
        rest = {*self.case.expected, *REST}
        return sum(lost for name, lost in self.judgement.lost.items() if name not in rest)

    @property
    def error(self) -> float | None:
        """How far that is from the truth, as a share of it; None where nothing is lost."""
        return self.lost_s / self.true_lost_s - 1.0 if self.true_lost_s > 0 else None

    @property
    def early(self) -> tuple[str, ...]:
        """What was found before anything bit: false alarms."""
        return tuple(sorted(name for name, at in self.judgement.found_at.items() if at < self.bites_s))


def row(case: Case, recorded: Recorded) -> Row:
    """Judges one run."""
    faults = recorded.truth["faults"]
    bites = {fault["signature"]: float(fault["bites_s"]) for fault in faults if fault["signature"] is not None}
    first = min(bites.values(), default=float("inf"))
    return Row(case, judge(recorded), truly_lost(recorded.truth), first, bites, int(recorded.truth["batches"]))


def _file(folder: Path, case: Case) -> Path:
    return folder / f"{case.name}.json.gz"


def rows(folder: Path = RECORDED, cases: Sequence[Case] = CASES) -> Iterator[Row]:
    """Those of the runs that are there, judged."""
    for case in cases:
        path = _file(folder, case)
        if path.exists():
            yield row(case, Recorded.read(path))


def record(cases: Sequence[Case], folder: Path, at_once: int) -> int:
    """Runs them, some at once, and keeps what they leave; the exit status. Raises LabError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LabError(f"{folder}: {error.strerror}; name another folder") from None
    with tempfile.TemporaryDirectory(prefix="lab-", dir=memory()) as scratch:
        run_together([Lab(case.plan(f"{scratch}/{case.name}")) for case in cases], at_once)
        for case in cases:
            Recorded.of_folder(Path(scratch) / case.name).without(ROOT).write(_file(folder, case))
    return 0


def main(argv: list[str] | None = None) -> int:
    """The exit status: 1 where something was judged wrongly."""
    parser = argparse.ArgumentParser(prog="python -m lab.matrix", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only these runs (default: all)")
    parser.add_argument("--record", action="store_true", help="run the lab anew")
    parser.add_argument("--at-once", type=how_many, default=2, help="runs at once while recording (default: 2)")
    parser.add_argument("--folder", type=Path, default=RECORDED, help="where the runs are kept")
    requests = parser.parse_args(argv)
    unknown = [name for name in requests.names if name not in {case.name for case in CASES}]
    if unknown:
        parser.error(f"{unknown[0]!r} is no run; there are {', '.join(case.name for case in CASES)}")
    cases = [case for case in CASES if not requests.names or case.name in requests.names]
    if requests.record and (status := in_order(lambda: record(cases, requests.folder, requests.at_once))):
        return status
    return _judge(cases, requests.folder)


def _judge(cases: Sequence[Case], folder: Path) -> int:
    missing = [case.name for case in cases if not _file(folder, case).exists()]
    if missing:
        print(f"lab: not recorded in {folder}: {', '.join(missing)}", file=sys.stderr)
    wrong = len(missing)
    for each in rows(folder, cases):
        good = each.right and each.right_first and each.in_time and not each.early
        good = good and abs(each.error or 0.0) <= TOLERANCE
        wrong += not good
        print(f"{'ok   ' if good else 'WRONG'} {line_of(each)}")
    return 1 if wrong else 0


def line_of(each: Row) -> str:
    """One line about a run."""
    detected = ", ".join(f"{name} {'never' if at is None else f'{at:.0f} s'}" for name, at in each.detected_s.items())
    error = "" if each.error is None else f", lost {each.lost_s:.1f} s of {each.true_lost_s:.1f} s ({each.error:+.0%})"
    early = f", too early: {', '.join(each.early)}" if each.early else ""
    return f"{each.case.name}: {each.called}; {detected}{error}{early}; first {each.first}"


if __name__ == "__main__":
    sys.exit(main())
