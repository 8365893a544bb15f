"""What a log told in part, in words: something never ended, or a weight update ended without its RPC.

A process was killed, a log ends too early, a request failed: none of that is in any figure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from perfmon.core import LEGS, Span, Update, counted, evidence_text, format_seconds, format_value, median
from perfmon.rules import View, announced_shutdown, overtaken, unanswered
from perfmon.store import SourceState

_TOLD = 3
"""So many of one kind are told of a log."""
_KINDS = {
    "checkpoint-wait": ("checkpoint wait", "checkpoint waits", "wait.done"),
    "generation-batch": ("generation batch", "generation batches", "batch.done"),
}
"""What only breaks off when something is wrong; of other systems a wait is open at the end of each good run."""
_SENT, _DONE, _RPC, _RPC_DONE = (
    1 << LEGS.index(leg) for leg in ("client.send", "client.done", "rpc.start", "rpc.done")
)


class Unended:
    """All of it in a view that nobody watches any more: what is watched may end yet."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._sent, self._passed = unanswered(view), overtaken(view)
        watched = view.present is not None
        self._updates: Sequence[Update] = () if watched else view.store.updates
        self._rpcs = [update for update in self._updates if _open_rpc(update)]
        self._untold = [update for update in self._updates if _is_untold(update)]
        self._spans = [] if watched else [span for span in view.store.opened() if span.kind in _KINDS]

    def notes(self, source: int) -> list[str]:
        """What is said of one log."""
        return [
            *[_unanswered(update, self._view) for update in self._sent if update.source == source][-_TOLD:],
            *_overtaken([update for update in self._passed if update.source == source]),
            *self._of_rpcs(source),
            *self._of_untold(source),
            *(note for kind in _KINDS for note in self._of_spans(source, kind)),
        ]

    def _of_rpcs(self, source: int) -> list[str]:
        mine = [update for update in self._rpcs if update.server == source and _seen(update, self._view)]
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
        return last[-_TOLD:] + _lost_ends(passed, source, ("RPC", "RPCs", "rpc.done"))

    def _of_untold(self, source: int) -> list[str]:
        """Said once of all updates that ended and told nothing but how long they took."""
        mine = [update for update in self._untold if update.source == source and _seen(update, self._view)]
        if not mine:
            return []
        every = sum(
            u.source == source and bool(u.legs & _DONE) and _seen(u, self._view) for u in self._view.store.updates
        )
        first = f"line {_last(mine[0], source)}, {evidence_text(mine[0].key)}".rstrip(", ")
        took = [update.wall_ms for update in mine if update.wall_ms is not None]
        usual = f"; they took {format_value(median(took), 'ms')} at the median" if took else ""
        return [
            f"{len(mine)} of {counted(every, 'weight update')} ended without RPC details "
            f"(first in {first}{usual}): failed, or answered without rpc_ms; their waiting time is not counted"
        ]

    def _of_spans(self, source: int, kind: str) -> list[str]:
        state = self._view.store.sources[source]
        mine = [span for span in self._spans if span.source == source and span.kind == kind and _seen(span, self._view)]
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
        return last[-_TOLD:] + _lost_ends([span for span in mine if span.seq <= newest], source, _KINDS[kind])


def _is_untold(update: Update) -> bool:
    return update.rpc_ms is None and update.queue_ms is None and bool(update.legs & _DONE)


def _seen(span: Span, view: View) -> bool:
    """Whether it began within what is looked at, as far as that is known."""
    low, high = view.window
    return span.start is None or low <= span.start + view.shift(span.source) <= high


def _open_rpc(update: Update) -> bool:
    """Its RPC has no end, and that is not said of its client already."""
    return bool(update.legs & _RPC and not update.legs & _RPC_DONE and update.legs & (_SENT | _DONE) != _SENT)


def _unanswered(update: Update, view: View) -> str:
    """How far an update came whose client never told its end: it was killed, or the log ends too early."""
    state, shift = view.store.sources[update.source], view.shift(update.source)
    server = next(((ref, text) for ref, text in reversed(update.refs) if ref.source == update.server), None)
    if server is not None and server[0].source != update.source:
        came = f"the last server line about it is in {view.store.sources[server[0].source].spec}, line {server[0].line}"
    else:
        heard = [other for other in view.store.sources if other.index == _server(view)]
        late = [(other.last or 0.0) + view.shift(other.index) - (update.start or 0.0) - shift for other in heard]
        gone_on = f", although {heard[0].spec} continues for {format_seconds(late[0])}" if late and late[0] > 0 else ""
        came = f"no server log mentions it{gone_on}"
    return (
        f"line {_first(update, update.source)}: weight update {evidence_text(update.key)} was sent and never finished: "
        f"the log ends {_later(update, state)} later without its client.done; {came}"
    )


def _overtaken(updates: Sequence[Update]) -> list[str]:
    """Said once of all updates without an end that others followed: what they waited is in no figure."""
    return _lost_ends(updates, updates[0].source, ("weight update", "weight updates", "client.done")) if updates else []


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
    """The first line of a log that tells of it."""
    return next((ref.line for ref, _ in span.refs if ref.source == source), 0)


def _last(span: Span, source: int) -> int:
    return next((ref.line for ref, _ in reversed(span.refs) if ref.source == source), 0)


def _later(span: Span, state: SourceState) -> str:
    """How long a log went on after something in it began."""
    return format_seconds(max(0.0, (state.last or 0.0) - (span.start or 0.0)))


def _server(view: View) -> int | None:
    """The log of the server that answered the others."""
    return next((told.server for told in reversed(view.store.updates) if told.server not in (None, told.client)), None)
