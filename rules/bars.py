"""What a value must be for a condition to hold, told by one look at all values: most never are, and need no judging."""

from __future__ import annotations

from .conditions.base import Bar
from .conditions.combine import AllOf, AnyOf
from .schema import Signature
from .view import View


def bars_of(signature: Signature, view: View) -> list[Bar]:
    """At least one of these, each of another metric, is passed by every item that a signature finds anything in; none
    when that cannot be told quickly."""
    first = signature.conditions[0]
    if not first.must_hold or isinstance(first, AllOf):
        return []
    if isinstance(first, AnyOf):
        return first.bars(view)
    bar = first.bar(view)
    return [] if bar is None else [bar]
