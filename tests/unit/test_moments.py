"""Moments as people give them: on runs with dates, without years, and those that cannot be."""

from __future__ import annotations

import pytest

from perfmon.core.config import moment
from perfmon.core.errors import UsageError

DAY = 86400.0
DATED = 1787300000.0


@pytest.mark.parametrize(
    "text", ["nan", "inf", "-inf", "-5m", "-120", "nanm", "1e999", "infs", "2026-13-01", "25:99", "14:61"]
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"is not a (valid time|duration)") as result:
        moment(text, DATED, DATED + 3600)
    assert "\n" not in str(result.value)


@pytest.mark.parametrize(
    ("text", "start", "expected"),
    [
        ("2026-08-21T14:30:00", 14 * 3600.0, 14.5 * 3600),
        ("2026-01-03T01:00:00", 2 * DAY, 2 * DAY + 3600),
        ("2026-08-21T14:00:00+00:00", DATED, 1787320800.0),
        ("10m", DATED, DATED + 3000),
        ("10m ago", DATED, DATED + 3000),
    ],
)
def test_a_date_is_resolved_on_the_axis_that_the_run_has(text: str, start: float, expected: float) -> None:
    assert moment(text, start, start + 3600) == expected
