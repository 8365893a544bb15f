"""Former kinds and flags of conditions, with their replacements for users' files."""

from __future__ import annotations

from collections.abc import Mapping

from perfmon.core import Table

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
    "step": '"duration" with than = "steps"',
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
