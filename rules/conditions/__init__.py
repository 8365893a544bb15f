"""Kinds of conditions: the class of a TOML table by its `type` and other keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import cast

from perfmon.core import Table

from .anomalies import SUFFIX, Jump, NotFinite, OfEachStep, Periodic
from .base import Condition, IfMissing, Level, Limits, Role, Single, read_fields
from .combine import AllOf, AnyOf, Combined, every_condition
from .lasting import THAN, Less, LongerThanUndisturbed, steady
from .parts import AtLeast, Ratio, SumAtMost, TimeShare
from .peers import WHAT as OF_PEERS
from .progress import WHAT as OF_PROGRESS
from .progress import DiedOf, Has
from .spans import overlap
from .trends import Fall, Grows
from .values import AMONG_VALUES, Aggregate, Threshold

ROLES = ("required", "supporting", "gate")
IF_MISSING = ("fail", "pass")
_COMMON = ("type", "role", "if_missing")


def _compare(table: Table) -> type[Single]:
    """By what is compared: with a `stat`, another metric, several, or the time of spans."""
    if "metrics" in table.data:
        return SumAtMost
    if "at_least" in table.data:
        return AtLeast
    if "span" in table.data:
        return TimeShare
    if "over" in table.data:
        return Ratio
    return Aggregate if "stat" in table.data else Threshold


COMBINED: Mapping[str, type[Combined]] = {"any": AnyOf, "all": AllOf}
"""Those that hold others, in `of`."""
BY_KEYS: Mapping[str, Callable[[Table], type[Single]]] = {
    "compare": _compare,
    "overlap": overlap,
    "steady": steady,
    "has": lambda _: Has,
    "death": lambda _: DiedOf,
}
"""The class by the keys that are present."""
BY_NAME: Mapping[str, tuple[str, Mapping[str, type[Single]]]] = {
    "duration": ("than", THAN),
    "progress": ("what", OF_PROGRESS),
    "peers": ("what", OF_PEERS),
    "trend": (
        "shape",
        {
            "fall": Fall,
            "growth": Grows,
            "jump": Jump,
            "less": Less,
            "not-finite": NotFinite,
            "of-each-step": OfEachStep,
            "periodic": Periodic,
        },
    ),
}
"""The class by the value of one key."""
KINDS = (*BY_KEYS, *BY_NAME, *COMBINED)


def read_condition(table: Table) -> Condition:
    """A condition from its table."""
    refuse_replaced(table)
    kind = table.text("type")
    condition: Condition
    if kind in COMBINED:
        table.only((*_COMMON, "of"))
        parts = tuple(read_condition(part) for part in table.tables("of"))
        if not parts:
            raise table.wrong("of", "missing, expected conditions")
        condition = COMBINED[kind](parts)
    elif kind in BY_KEYS:
        chosen = BY_KEYS[kind](table)
        table.only((*_COMMON, *chosen.keys()))
        condition = chosen.read(table)
    elif kind in BY_NAME:
        key, choices = BY_NAME[kind]
        named = _one_of(table, key, choices)
        table.only((*_COMMON, key, *choices[named].keys()))
        condition = choices[named].read(table)
    else:
        raise table.wrong("type", f"expected one of {', '.join(KINDS)}")
    role, if_missing = _one_of(table, "role", ROLES, "required"), _one_of(table, "if_missing", IF_MISSING, "fail")
    return replace(condition, role=cast(Role, role), if_missing=cast(IfMissing, if_missing))


def _one_of(table: Table, key: str, choices: Mapping[str, object] | tuple[str, ...], default: str | None = None) -> str:
    value = table.text(key, default)
    if value not in choices:
        raise table.wrong(key, f"expected one of {', '.join(choices)}")
    return value


# --- Former kinds and flags ---

_KINDS: Mapping[str, str] = {
    "threshold": '"compare"',
    "aggregate": '"compare"',
    "ratio": '"compare"',
    "outweighs": '"compare", with at_least in place of over',
    "fits": '"compare", with at_most in place of whole',
    "takes": '"compare"',
    "coincides": '"overlap"',
    "ready": '"overlap", with ended_before in place of share (which was 0.3 where left out)',
    "baseline": '"duration" with than = "undisturbed"',
    "overlong": '"duration" with than = "earlier"',
    "advances": '"progress" with what = "steps"',
    "drift": '"trend" with shape = "fall"',
    "grows": '"trend" with shape = "growth"',
    "jump": '"trend" with shape = "jump"',
    "nonfinite": '"trend" with shape = "not-finite"',
    "periodic": '"trend" with shape = "periodic"',
    "lasts": '"steady"',
    "unchanged": '"steady"',
    "trickle": '"peers" with what = "trickle"',
    "prevails": '"peers" with what = "most-often"',
    "tells": '"has"',
    "last-word": '"death"',
}
_MISSED: Mapping[str, str] = {
    "step": '"duration" with than = "rhythm"',
    "usual": '"duration" with than = "usual"',
    "rhythm": '"duration" with than = "rhythm"',
    "going-on": '"progress" with what = "work"',
    "spans": '"progress" with what = "no-reported-work"',
    "lines": '"progress" with what = "other-logs"',
    "busy-log": '"progress" with what = "busy-log"',
}
"""Replacements of `missed`, by its `what`."""
_FLAGS: Mapping[tuple[str, bool], str] = {
    ("required", False): 'role = "supporting"',
    ("required", True): 'role = "required", or nothing',
    ("gate", True): 'role = "gate"',
    ("gate", False): "nothing",
    ("optional", True): 'if_missing = "pass"',
    ("optional", False): "nothing",
}


def refuse_replaced(table: Table) -> None:
    """Raise DataFileError with the replacement for a former kind or flag of a condition."""
    kind = table.data.get("type")
    if isinstance(kind, str):
        now = _KINDS.get(kind)
        if kind == "missed":
            now = _MISSED.get(str(table.data.get("what")), '"duration" or "progress"')
        elif kind == "peers" and "what" not in table.data:
            raise table.wrong("what", 'missing, expected what = "busiest" as "peers" alone is no longer accepted')
        if now is not None:
            raise table.wrong("type", f'"{kind}" is now {now}')
    for (flag, value), now in _FLAGS.items():
        if table.data.get(flag) is value:
            raise table.wrong(flag, f"no longer a key, expected {now} in place of {flag} = {str(value).lower()}")


__all__ = [
    "AMONG_VALUES",
    "SUFFIX",
    "Aggregate",
    "AnyOf",
    "Condition",
    "Level",
    "Limits",
    "LongerThanUndisturbed",
    "Ratio",
    "Threshold",
    "every_condition",
    "read_condition",
    "read_fields",
]
