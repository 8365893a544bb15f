"""The logs of a view: figures of each, and notes about later runs in it, refused launches, lost lines, clocks, and
operations without an end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from perfmon.clocks import Alignment
from perfmon.core import (
    LEGS,
    SHOWN_PROBLEMS,
    Span,
    Update,
    counted,
    evidence_text,
    format_seconds,
    format_value,
    median,
)
from perfmon.rules import CAUSE_WORDS, Boundary, View, announced_shutdown, left_open, set_forward
from perfmon.store import NOT_FINITE, SourceState, Store

from .result import SourceSummary

_SHOWN_RUNS = 3
"""Runs of one file with a note of their own."""
_SHOWN = 3
"""Notes of one kind about incomplete operations of each log."""
_KINDS = {
    "checkpoint-wait": ("checkpoint wait", "checkpoint waits", "wait.done"),
    "generation-batch": ("generation batch", "generation batches", "batch.done"),
}
"""Spans that only break off when something is wrong; other systems leave a wait open at the end of each good run."""
_SENT, _DONE, _RPC, _RPC_DONE = (
    1 << LEGS.index(leg) for leg in ("client.send", "client.done", "rpc.start", "rpc.done")
)


def source_infos(
    store: Store, view: View, alignment: Alignment, pattern_names: Sequence[str]
) -> tuple[SourceSummary, ...]:
    """One entry for each log; those of pollers only where there is nothing else."""
    unfinished = _Unfinished(view)
    logs = view.logs or store.sources
    return tuple(_info(state, view, alignment, pattern_names, unfinished) for state in logs)


def _info(
    state: SourceState, view: View, alignment: Alignment, names: Sequence[str], unfinished: _Unfinished
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


# --- Incomplete operations: a process was killed, a log ends too early, a request failed; no figure includes them ---


class _Unfinished:
    """All of them in a view of logs that are not monitored: in a monitored run they may still end."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._sent, self._passed = left_open(view)
        live = view.present is not None
        self._updates: Sequence[Update] = () if live else view.store.updates
        self._rpcs = [update for update in self._updates if _open_rpc(update)]
        self._undetailed = [
            one for one in self._updates if one.rpc_ms is None and one.queue_ms is None and one.legs & _DONE
        ]
        self._spans = [] if live else [span for span in view.store.opened() if span.kind in _KINDS]

    def notes(self, source: int) -> list[str]:
        """The notes about one log."""
        passed = [update for update in self._passed if update.source == source]
        sent = [update for update in self._sent if update.source == source]
        return [
            *(_unanswered(update, self._view) for update in sent[-_SHOWN:]),
            *_lost_ends(passed, source, ("weight update", "weight updates", "client.done")),
            *self._of_rpcs(source),
            *self._of_undetailed(source),
            *(note for kind in _KINDS for note in self._of_spans(source, kind)),
        ]

    def _of_rpcs(self, source: int) -> list[str]:
        mine = [update for update in self._rpcs if update.server == source and _in_window(update, self._view)]
        if not mine:
            return []
        newest = max((u.seq for u in self._updates if u.server == source and u.legs & _RPC_DONE), default=-1)
        last = [
            f"line {_last(update, source)}: the RPC of weight update {evidence_text(update.key)} never "
            "ended: the log ends without its rpc.done"
            for update in mine
            if update.seq > newest
        ]
        passed = [update for update in mine if update.seq <= newest]
        return last[-_SHOWN:] + _lost_ends(passed, source, ("RPC", "RPCs", "rpc.done"))

    def _of_undetailed(self, source: int) -> list[str]:
        """One note about all updates that ended and reported nothing but their duration."""
        mine = [update for update in self._undetailed if update.source == source and _in_window(update, self._view)]
        if not mine:
            return []
        done = [update for update in self._updates if update.source == source and update.legs & _DONE]
        every = sum(_in_window(update, self._view) for update in done)
        first = f"line {_last(mine[0], source)}, {evidence_text(mine[0].key)}".rstrip(", ")
        took = [update.wall_ms for update in mine if update.wall_ms is not None]
        usual = f"; they took {format_value(median(took), 'ms')} at the median" if took else ""
        return [
            f"{len(mine)} of {counted(every, 'weight update')} ended without RPC details "
            f"(first in {first}{usual}): failed, or answered without rpc_ms; their waiting time is not counted"
        ]

    def _of_spans(self, source: int, kind: str) -> list[str]:
        state = self._view.store.sources[source]
        mine = [
            span for span in self._spans if span.source == source and span.kind == kind and _in_window(span, self._view)
        ]
        if not mine or announced_shutdown(state):
            return []
        newest = max((span.seq for span in self._view.store.spans.get(kind, ()) if span.source == source), default=-1)
        name, _, end = _KINDS[kind]
        last = [
            f"line {_first(span, source)}: {f'{name} {evidence_text(span.key)}'.strip()} never ended: "
            f"the log ends {_later(span, state)} later without its {end}"
            for span in mine
            if span.seq > newest
        ]
        return last[-_SHOWN:] + _lost_ends([span for span in mine if span.seq <= newest], source, _KINDS[kind])


def _in_window(span: Span, view: View) -> bool:
    """True for what started within the window, or at an unknown time."""
    low, high = view.window
    return span.start is None or low <= span.start + view.shift(span.source) <= high


def _open_rpc(update: Update) -> bool:
    """Its RPC has no end, and there is no note about its client already."""
    return bool(update.legs & _RPC and not update.legs & _RPC_DONE and update.legs & (_SENT | _DONE) != _SENT)


def _unanswered(update: Update, view: View) -> str:
    """The note about an update whose client never reported its end: it was killed, or the log ends too early."""
    state, shift = view.store.sources[update.source], view.shift(update.source)
    server = next(((ref, text) for ref, text in reversed(update.refs) if ref.source == update.server), None)
    if server is not None and server[0].source != update.source:
        came = f"the last server line about it is in {view.store.sources[server[0].source].spec}, line {server[0].line}"
    else:
        later = ""
        if (index := _server(view)) is not None:
            other = view.store.sources[index]
            late_s = view.extent(other)[1] - (update.start or 0.0) - shift
            later = f", although {other.spec} continues for {format_seconds(late_s)}" if late_s > 0 else ""
        came = f"no server log mentions it{later}"
    return (
        f"line {_first(update, update.source)}: weight update {evidence_text(update.key)} was sent and never finished: "
        f"the log ends {_later(update, state)} later without its client.done; {came}"
    )


def _lost_ends(spans: Iterable[Span], source: int, names: tuple[str, str, str]) -> list[str]:
    held = sorted(spans, key=lambda span: span.start or 0.0)
    if not held:
        return []
    first = f"line {_first(held[0], source)}, {evidence_text(held[0].key)}".rstrip(", ")
    return [
        f"{counted(len(held), *names[:2])} without {names[2]}, others followed ({first}): failed, killed, or the "
        "line was lost; their waiting time is not counted"
    ]


def _first(span: Span, source: int) -> int:
    """The first line of a log about it."""
    return next((ref.line for ref, _ in span.refs if ref.source == source), 0)


def _last(span: Span, source: int) -> int:
    return next((ref.line for ref, _ in reversed(span.refs) if ref.source == source), 0)


def _later(span: Span, state: SourceState) -> str:
    """The time for which a log continued after something in it started."""
    return format_seconds(max(0.0, (state.last or 0.0) - (span.start or 0.0)))


def _server(view: View) -> int | None:
    """The log of the server that answered the others."""
    return next((one.server for one in reversed(view.store.updates) if one.server not in (None, one.client)), None)


def dates_saves(view: View) -> bool:
    """The time of no log is known to be that of another without clocks; one log alone has the clock of its bar."""
    paced = any(counter.elapsed_s is not None for counter in view.store.progress.counters.values())
    return view.timed or (paced and len(view.logs) == 1)


# --- The GPUs of the parts of a run ---

_SAME_START_S = 120.0
"""The parts of a run begin within so many seconds."""


def role_gpus(view: View) -> dict[str, frozenset[str]]:
    """The GPUs of each role of the last run, where the lines of its begin name them."""
    found: dict[str, set[str]] = {}
    for mark in view.store.progress.marks:
        time = mark.time + view.shift(mark.source)
        role, gpus = str(mark.fields.get("role", "")), str(mark.fields.get("gpus", ""))
        if role and gpus and time >= view.run_began - _SAME_START_S:
            found.setdefault(role, set()).update(one.strip() for one in gpus.split(","))
    return {role: frozenset(gpus) for role, gpus in found.items()}
