"""Every case is judged as a careful reader would; in pieces as of a whole, and in time for somebody who looks on.

What is not right yet stands in docs/accuracy.md, case by case: such a case may fail, any other may not.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from .building import Case, cases, read
from .comparing import Judged
from .judging import Outcome, Watched, in_pieces, live, offline
from .page import SECTION, not_right_yet, section

pytestmark = pytest.mark.xdist_group("cases")
"""One worker judges each case once, for all tests."""
QUICK = 6
"""One case in so many is judged where time is short."""
_LONG = 100
"""Characters from which on a line of two cases is no coincidence."""


def _params() -> list[object]:
    return [
        pytest.param(number, case, id=case.id, marks=() if number % QUICK == 0 else pytest.mark.slow)
        for number, case in enumerate(cases())
    ]


def _must_be_right(case: Case, wrong: Sequence[str]) -> None:
    if wrong and case.id in not_right_yet():
        pytest.xfail("; ".join(wrong))
    assert not wrong, case.title


@cache
def _of_files(number: int) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        return offline(cases()[number], Path(folder))


@cache
def _in_pieces(number: int) -> Outcome:
    return in_pieces(cases()[number])


@cache
def _live(number: int) -> Watched:
    return live(cases()[number])


@pytest.mark.parametrize(("number", "case"), _params())
def test_a_finished_log_is_judged_rightly(number: int, case: Case) -> None:
    _must_be_right(case, Judged(case, _of_files(number)).wrong)


@pytest.mark.parametrize(("number", "case"), _params())
def test_pieces_make_the_same_answer(number: int, case: Case) -> None:
    judged = Judged(case, _of_files(number), _in_pieces(number))
    _must_be_right(case, [f"{judged.pieces}, not {judged.outcome}"] if judged.differs else [])


@pytest.mark.slow
@pytest.mark.parametrize(("number", "case"), [*enumerate(cases())], ids=[case.id for case in cases()])
def test_who_looks_on_is_told_in_time(number: int, case: Case) -> None:
    _must_be_right(case, Judged(case, _of_files(number), None, _live(number)).wrong_live)


def test_many_cases_are_harmless() -> None:
    """False alarms cost the most trust."""
    assert len(cases()) >= 120
    assert sum(case.harmless for case in cases()) >= 35


def test_no_two_cases_share_their_lines() -> None:
    seen: dict[bytes, str] = {}
    for case in cases():
        for line in {line for log in case.logs for line in log.data.splitlines() if len(line) > _LONG}:
            assert seen.setdefault(line, case.id) == case.id, line


def test_a_case_is_the_same_every_time() -> None:
    for path in sorted(Path(__file__).parent.glob("*/*.toml"))[::20]:
        assert read(path) == read(path)


@pytest.mark.slow
def test_the_page_tells_what_is_so() -> None:
    judged = [Judged(case, _of_files(at), _in_pieces(at), _live(at)) for at, case in enumerate(cases())]
    assert section(judged) == SECTION.read_text("utf-8"), "python -m tests.cases.page writes it anew"
