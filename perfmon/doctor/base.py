"""The outcome of one look."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """State of a check; only BROKEN keeps perfmon from working."""

    FOUND = "found"
    LIMITED = "limited"
    """There, but something of it is missing."""
    MISSING = "missing"
    UNKNOWN = "unknown"
    """It did not answer in time."""
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of a check."""

    state: State
    detail: str
    """Details, or the reason of a problem."""
    costs: str = ""
    """Impact on the user; "" if there is none."""
    mend: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """A finding with what was looked at."""

    id: str
    group: str
    title: str
    finding: Finding


def found(detail: str) -> Finding:
    """All is well."""
    return Finding(State.FOUND, detail)


def missing(detail: str, costs: str, mend: str = "") -> Finding:
    """It is not there."""
    return Finding(State.MISSING, detail, costs, mend)


def limited(detail: str, costs: str, mend: str = "") -> Finding:
    """Not all of it is there."""
    return Finding(State.LIMITED, detail, costs, mend)
