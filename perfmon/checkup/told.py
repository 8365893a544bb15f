"""A check-up in words that fit 80 columns and need no colours, and as a document for programs."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from perfmon import __version__

from .check import Check, State

SCHEMA = 1
WIDTH = 80
_TITLE, _STATE = 17, 9


def lines(checks: Sequence[Check]) -> Iterator[str]:
    """One line for what was found; more for what was not: what that costs, and the mend."""
    for group, of_group in groupby(checks, key=lambda check: check.group):
        yield group
        for check in of_group:
            yield from _lines(check)
        yield ""
    yield summary(checks)


def summary(checks: Iterable[Check]) -> str:
    """Summary in one line."""
    checks = list(checks)
    counts = {state: sum(check.finding.state is state for check in checks) for state in State}
    said = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    verdict = "fix broken items first" if counts[State.BROKEN] else "nothing is broken"
    return f"{said}: {verdict}"


def _lines(check: Check) -> Iterator[str]:
    finding = check.finding
    head = f"  {check.title:<{_TITLE}}{finding.state.value:<{_STATE}}"
    yield from _wrapped(head, finding.detail)
    for word, text in (("costs", finding.costs), ("mend", finding.mend)):
        if text:
            yield from _wrapped(f"{'':<{2 + _TITLE}}{word + ':':<{_STATE}}", text)


def _wrapped(head: str, text: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=head, subsequent_indent=" " * len(head), break_on_hyphens=False
    ) or [head.rstrip()]


def document(checks: Iterable[Check]) -> dict[str, Any]:
    """For programs: schema 1."""
    return {
        "schema": SCHEMA,
        "perfmon": __version__,
        "checks": [
            {
                "id": check.id,
                "group": check.group,
                "title": check.title,
                "state": check.finding.state.value,
                "detail": check.finding.detail,
                "costs": check.finding.costs,
                "mend": check.finding.mend,
            }
            for check in checks
        ],
    }
