"""The logs of a view: figures of each, and notes about later runs in it, refused launches, lost lines and clocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from perfmon.clocks import Alignment
from perfmon.core import SHOWN_PROBLEMS, counted, format_seconds
from perfmon.rules import CAUSE_WORDS, Boundary, View, set_forward
from perfmon.store import NOT_FINITE, SourceState, Store

from .result import SourceSummary
from .unfinished import Unfinished

_SHOWN_RUNS = 3
"""Runs of one file with a note of their own."""


def source_infos(
    store: Store, view: View, alignment: Alignment, pattern_names: Sequence[str]
) -> tuple[SourceSummary, ...]:
    """One entry for each log; those of pollers only where there is nothing else."""
    unfinished = Unfinished(view)
    logs = view.logs or store.sources
    return tuple(_info(state, view, alignment, pattern_names, unfinished) for state in logs)


def _info(
    state: SourceState, view: View, alignment: Alignment, names: Sequence[str], unfinished: Unfinished
) -> SourceSummary:
    patterns = {names[at] if at < len(names) else str(at): n for at, n in sorted(state.patterns.items())}
    packs = Counter[str]()
    for name, count in patterns.items():
        packs[name.partition("/")[0]] += count
    shift = view.shift(state.index) - view.window[0]
    timed = state.first is not None and state.last is not None
    notes = list(state.notes)
    if state.index in alignment.notes:
        notes.append(alignment.notes[state.index])
    notes += _not_finite(state, view)
    notes += _other_run(state, view)
    notes += _refused(state, view)
    notes += _parallel(state, view)
    notes += unfinished.notes(state.index)
    if state.stepped_back:
        notes.append(f"timestamps went back {counted(state.stepped_back, 'time')} by more than a minute")
    if (jump := set_forward(state, view)) is not None:
        notes.append(f"jumps by {format_seconds(jump[1] - jump[0])} at night: a daylight saving change, not a stall")
    if state.skipped > SHOWN_PROBLEMS:
        notes.append(f"{counted(state.skipped - SHOWN_PROBLEMS, 'more line')} with implausible values")
    return SourceSummary(
        spec=state.spec,
        format="+".join(sorted(packs, key=lambda pack: (-packs[pack], pack))) or "unknown",
        bytes=state.bytes,
        lines=state.lines,
        events=sum(state.patterns.values()),
        skipped=state.skipped,
        errors=state.errors,
        first_s=(state.first or 0.0) + shift if timed else None,
        last_s=(state.last or 0.0) + shift if timed else None,
        notes=tuple(notes),
        patterns=patterns,
    )


def _not_finite(state: SourceState, view: View) -> list[str]:
    """Notes on metrics with nan or infinite values in a log."""
    found: dict[str, list[int]] = {}
    for (name, _), series in sorted(view.store.marks.items()):
        if name.endswith(NOT_FINITE):
            found.setdefault(name.removesuffix(NOT_FINITE), []).extend(
                line for line, source in zip(series.lines, series.sources, strict=True) if source == state.index
            )
    return [
        f"{name} is nan or infinite in {counted(len(lines), 'line')}, first in line {min(lines)}"
        for name, lines in found.items()
        if lines
    ]


def _other_run(state: SourceState, view: View) -> list[str]:
    """Notes on a log after a pause that separates runs, or around one."""
    if state.first is None or state.last is None:
        return []
    own = [one for one in view.boundaries if one.source == state.index]
    if own:
        notes = [_run_text(one) for one in own[:_SHOWN_RUNS]]
        if len(own) > _SHOWN_RUNS:
            notes.append(f"{counted(len(own) - _SHOWN_RUNS, 'more run')} in this file")
        return notes + _cut_short(own, view)
    first, last = view.extent(state)
    before = [gap for gap in view.apart if gap[1] <= first]
    if not before:
        within = [one for one in view.restarts if first <= one.between[0] and one.between[1] <= last]
        return [
            f"steps restart after {format_seconds(one.between[1] - one.between[0])} without output: another run; "
            + (
                "the previous one stopped logging within a step, without an end"
                if one.hung
                else "the gap is not evaluated"
            )
            for one in within
        ]
    low, high = before[-1]
    return [f"starts {format_seconds(high - low)} after the previous logs: another run; the gap is not evaluated"]


def _cut_short(runs: Sequence[Boundary], view: View) -> list[str]:
    """Note on runs that began from their start again and again, each before the one before it was through."""
    total = view.way.counter.total if view.way is not None and view.way.counter.kind == "step" else None
    furthest = max((one.last_step for one in runs if one.last_step is not None), default=0.0)
    if total is None or furthest >= total - 1 or len(runs) < _SHOWN_RUNS or not all(one.from_start for one in runs):
        return []
    return [
        f"each of the {len(runs)} runs before the last one stopped short of step {total:,.0f} and the next one began "
        f"from the start; the furthest came to step {furthest:,.0f}"
    ]


def _refused(state: SourceState, view: View) -> list[str]:
    """Notes on launches that were refused while an earlier one lives on: they cost nothing."""
    return [
        f"line {one.line}: another launch was refused, as its port is in use; the earlier one continues"
        for one in view.refused_launches
        if one.source == state.index
    ][:_SHOWN_RUNS]


def _parallel(state: SourceState, view: View) -> list[str]:
    """Note on step counters that advance at once in a log: several runs write to it."""
    counters = view.at_once.get(state.index, ())
    if not counters:
        return []
    shown = ", ".join(f"{one[0]:.0f} to {one[-1]:.0f}" for one in counters[:_SHOWN_RUNS])
    return [
        f"{len(counters)} step counters advance at once ({shown}): several runs or parts of one write to this "
        "log; give each a log of its own for its pace and its end"
    ]


def _run_text(one: Boundary) -> str:
    """The note about a later run in the same file, and the end of the one before."""
    gap = one.time - one.ended
    after = f" after {format_seconds(gap)}" if gap >= 1.0 else ""
    if one.resumed and one.first_step is not None and one.last_step is not None:
        again = max(0.0, one.last_step - one.first_step + 1)
        what = f"resumes at {one.unit} {one.first_step:.0f}{after}"
        what += f": {counted(int(again), one.unit)} again" if again else ""
    elif one.again:
        what = f"a failed start is retried{after}"
    else:
        what = f"another run starts{after}; the gap is not evaluated"
    if one.failure is not None:
        what += f"; the previous one ended by {CAUSE_WORDS.get(one.failure.cause, one.failure.cause)}"
    return f"line {one.line}: {what}"
