"""What perfmon says of cases against the truth about them."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .building import Case, cases
from .judging import Outcome, Watched, in_pieces, live, offline


@dataclass(frozen=True, slots=True)
class Judged:
    """A case and what is said of it."""

    case: Case
    outcome: Outcome
    pieces: Outcome | None = None
    """Of the same lines in pieces; None: not asked."""
    watched: Watched | None = None

    @property
    def wrong(self) -> list[str]:
        """What is not as it should be of the finished files."""
        return list(_wrong(self.case, self.outcome))

    @property
    def wrong_live(self) -> list[str]:
        """What is not as it should be for somebody who looks on."""
        return list(_wrong_live(self.case, self.watched)) if self.watched is not None else []

    @property
    def differs(self) -> bool:
        """Pieces make another answer than the whole."""
        return self.pieces is not None and _answer(self.pieces) != _answer(self.outcome)

    @property
    def false_alarms(self) -> frozenset[str]:
        """What is held against a run that has nothing."""
        if not self.case.harmless:
            return frozenset()
        alarms = set(self.outcome.findings) - self.case.truth.also - set(self.case.truth.verdict)
        if self.outcome.state in ("failed", "stalled"):
            alarms.add(self.outcome.state)
        return frozenset(alarms)

    @property
    def lost_error(self) -> float | None:
        """By how much the lost time is wrong, as a share of the truth."""
        truth = self.case.truth
        if truth.lost_s is None or self.outcome.verdict not in truth.verdict:
            return None
        return self.outcome.lost_s / truth.lost_s - 1.0


def _answer(outcome: Outcome) -> tuple[object, ...]:
    return outcome.state, outcome.verdict, outcome.cause, outcome.place, outcome.findings, round(outcome.lost_s, 3)


def _wrong(case: Case, outcome: Outcome) -> Iterator[str]:
    truth = case.truth
    if outcome.state not in truth.state:
        yield f"state is {outcome.state or 'not told'}, not {' or '.join(truth.state)}"
    verdicts = truth.file_verdict or truth.verdict
    if outcome.verdict not in verdicts:
        yield f"verdict is {outcome.verdict}, not {' or '.join(verdicts)}"
    if truth.cause and outcome.cause not in truth.cause:
        yield f"cause is {outcome.cause or 'not told'}, not {' or '.join(truth.cause)}"
    for name in ("rank", "host", "component"):
        wanted = getattr(truth, name)
        if wanted is not None and outcome.place.get(name) != str(wanted):
            yield f"{name} is {outcome.place.get(name, 'not told')}, not {wanted}"
    if named := sorted(truth.never & {outcome.cause, outcome.verdict, *outcome.findings}):
        yield f"names {', '.join(named)}"
    if case.harmless and (alarms := sorted(outcome.findings - truth.also - set(truth.verdict))):
        yield f"false alarm: {', '.join(alarms)}"
    if truth.goal is not None and outcome.goal != truth.goal:
        yield f"progress is {outcome.goal or 'not told'}, not {truth.goal or 'none'}"
    if truth.runs is not None and outcome.runs != truth.runs:
        yield f"{outcome.runs} runs, not {truth.runs}"
    if truth.lost_s is not None and abs(outcome.lost_s - truth.lost_s) > truth.tolerance * truth.lost_s:
        yield f"lost {outcome.lost_s:.0f} s, not {truth.lost_s:.0f} s"


def _wrong_live(case: Case, watched: Watched) -> Iterator[str]:
    truth, last = case.truth, watched.last
    states = truth.live_state or truth.state
    if last.state not in states:
        yield f"live: state is {last.state or 'not told'}, not {' or '.join(states)}"
    if case.harmless:
        right = {*truth.verdict, *truth.also, *truth.meanwhile, *states}
        alarms = {name: at for name, at in watched.alarms.items() if name not in right}
        if alarms:
            yield f"live: false alarm: {', '.join(f'{name} after {at:.0f} s' for name, at in alarms.items())}"
    elif truth.named_within_s is not None:
        if watched.named_s is None:
            yield "live: never told"
        elif watched.named_s > truth.named_within_s:
            yield f"live: told after {watched.named_s:.0f} s, not within {truth.named_within_s:.0f} s"
    if watched.withdrawn > 1:
        yield f"live: told, and withdrawn, {watched.withdrawn} times"


def judged(case: Case, folder: Path, *, watch: bool = True) -> Judged:
    """What is said of a case; its files are written to an empty folder."""
    of_files = offline(case, folder)
    return Judged(case, of_files, in_pieces(case), live(case)) if watch else Judged(case, of_files)


def all_judged(names: Sequence[str] = (), *, watch: bool = True) -> Iterator[Judged]:
    """Of all cases, or of those whose id holds one of the names."""
    for case in cases():
        if not names or any(name in case.id for name in names):
            with tempfile.TemporaryDirectory() as folder:
                yield judged(case, Path(folder), watch=watch)


def main(argv: Sequence[str] | None = None) -> int:
    """Prints what is wrong, case by case, and how many are right by class."""
    parser = argparse.ArgumentParser(prog="python -m tests.cases", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="only cases whose id holds one of these (default: all)")
    parser.add_argument("--live", action="store_true", help="watch them live, too")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write the logs there, and judge nothing")
    parser.add_argument("-q", "--quiet", action="store_true", help="only the figures")
    requests = parser.parse_args(argv)
    if requests.write is not None:
        return _write(requests.names, requests.write)
    by_class: dict[str, list[bool]] = {}
    for one in all_judged(requests.names, watch=requests.live):
        wrong = [*one.wrong, *one.wrong_live, *(["pieces make another answer"] if one.differs else [])]
        by_class.setdefault(one.case.group, []).append(not wrong)
        if not requests.quiet:
            print(f"{'WRONG' if wrong else 'ok   '} {one.case.id}{': ' if wrong else ''}{'; '.join(wrong)}")
    for name, right in by_class.items():
        print(f"{name:24} {sum(right):3} of {len(right):3} right")
    total = [right for rights in by_class.values() for right in rights]
    print(f"{'all':24} {sum(total):3} of {len(total):3} right")
    return 0 if all(total) else 1


def _write(names: Sequence[str], folder: Path) -> int:
    for case in cases():
        if not names or any(name in case.id for name in names):
            for log in case.logs:
                path = folder / case.id / log.name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(log.data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
