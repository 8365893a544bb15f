"""Whether a run stood still within a step before another one began in the same logs, or had ended.

Both look alike from afar: a long silence, and steps that begin at 0. What tells is what the earlier run was at. Where
something had begun since its last step and never ended, the run was at work when it fell silent: the silence is time
that it lost, until somebody gave up and started it anew. Where it said that it ends, or that it failed, no process was
left to lose anything: until the next start nobody ran. Where neither is told, it is taken for a pause: a run that
prints nothing but its steps ends behind one of them, and a stall that is not there costs more trust than a pause that
was one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from perfmon.model import LEGS, Gap, Span, Update

from .told_end import FAREWELL

if TYPE_CHECKING:
    from perfmon.ledger import Window

    from .run_view import RunView

_CRASH = "crash"
_SENT, _DONE = (1 << LEGS.index(leg) for leg in ("client.send", "client.done"))
_FAILED = re.compile(
    r"\b(?:ERROR|CRITICAL|FATAL|Traceback|[A-Z]\w*(?:Error|Exception)|SIG(?:TERM|KILL|INT|ABRT|SEGV)|[Kk]illed|[Aa]borted)\b"
)
_BEGUN = re.compile(r"(?i)\b(?:start(?:ed|ing)? [^:;|]{0,40}?\b(?:step|iteration|batch|rollouts?)\b|waiting for\b)")
"""Lines that say what a run is at, of which no pattern tells that it begins."""

Lines = tuple[int, int]
"""The last line that tells of a step, and the last dated one."""


def died_within(silence: Window, view: RunView) -> bool:
    """Whether the run that fell silent there was within a step and neither said that it ends nor that it failed."""
    before = _last_lines(silence, view)
    texts = [gap.text for gap in before.values()]
    if any(FAREWELL.search(text) or _FAILED.search(text) for text in texts) or _crashed(before, view):
        return False
    within = {source: (_last_step(source, gap.line, view), gap.line) for source, gap in before.items()}
    begun = any(_BEGUN.search(before[source].text) for source, (step, _) in within.items() if step)
    return begun or any(_was_open(span, within) for span in _spans(view))


def _last_lines(silence: Window, view: RunView) -> dict[int, Gap]:
    """The gap of each log that holds the silence."""
    low, high = silence
    shifts = view.shifts
    return {
        state.index: gap
        for state in view.store.sources
        if not state.polled
        for gap in state.gaps
        if gap.start + shifts.get(state.index, 0.0) <= low and high <= gap.end + shifts.get(state.index, 0.0)
    }


def _crashed(before: dict[int, Gap], view: RunView) -> bool:
    """Lines without a clock, between the last dated line and the first one of the later run, tell of a crash."""
    marks = [series for (name, _), series in view.store.marks.items() if name == _CRASH]
    return any(
        source in before and before[source].line < line and not 0 < before[source].upto <= line
        for series in marks
        for source, line in zip(series.sources, series.lines, strict=True)
    )


def _last_step(source: int, upto: int, view: RunView) -> int:
    """The line of a log's last step up to a line; 0 for none."""
    lines = (
        line
        for series in view.store.steps.values()
        for line, of in zip(series.lines, series.sources, strict=True)
        if of == source and line <= upto
    )
    return max(lines, default=0)


def _spans(view: RunView) -> Iterable[Span]:
    yield from view.store.opened()
    yield from view.store.abandoned
    yield from view.store.updates
    for spans in view.store.spans.values():
        yield from spans


def _was_open(span: Span, within: dict[int, Lines]) -> bool:
    """It began after the last step, and no line of that run told its end: where one did, it was the later run's."""
    if not span.refs or span.refs[0][0].source not in within:
        return False
    step, last = within[span.refs[0][0].source]
    if not step < span.refs[0][0].line <= last:
        return False
    if isinstance(span, Update):
        return span.legs & (_SENT | _DONE) == _SENT
    return span.end is None or span.refs[-1][0].line > last
