"""Notes about incomplete operations: something never ended, or a weight update ended without its RPC.

A process was killed, a log ends too early, a request failed: no figure includes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from perfmon.core import LEGS, Span, Update, counted, evidence_text, format_seconds, format_value, median
from perfmon.rules import View, announced_shutdown, left_open
from perfmon.store import SourceState

_SHOWN = 3
"""Notes of one kind for each log."""
_KINDS = {
    "checkpoint-wait": ("checkpoint wait", "checkpoint waits", "wait.done"),
    "generation-batch": ("generation batch", "generation batches", "batch.done"),
}
"""Spans that only break off when something is wrong; other systems leave a wait open at the end of each good run."""
_SENT, _DONE, _RPC, _RPC_DONE = (
    1 << LEGS.index(leg) for leg in ("client.send", "client.done", "rpc.start", "rpc.done")
)


class Unfinished:
    """All of it in a view of logs that are not monitored: in a monitored run it may still end."""

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
