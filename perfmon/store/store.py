"""What was observed of a run, bounded by a byte budget: spans, marks, series, recent spans."""

from __future__ import annotations

from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, islice
from operator import gt, lt
from typing import TypeVar

from perfmon.core import Ref, Span, Update

from .progress import ProgressLog
from .source_state import SourceState

# --- The samples of one metric, in arrays ---

_OTHER = bytes.maketrans(b"\0\1", b"\1\0")
_TEXT_BYTES = 250
"""Beside its characters: the string, its place, and the entry of the table."""


class Series:
    """The samples of one metric and group, in the order in which they were read."""

    __slots__ = (
        "_looked", "_steady", "gone", "group", "lines", "metric", "offsets", "peaks", "sources", "texts", "times",
        "values",
    )  # fmt: skip

    def __init__(self, metric: str, group: str) -> None:
        self.metric, self.group = metric, group
        self.times = array("d")
        """Seconds on the axis of the sample's source."""
        self.values = array("d")
        """In the metric's unit."""
        self.sources = array("L")
        self.lines = array("Q")
        self.offsets = array("Q")
        self.texts: dict[tuple[int, int], str] = {}
        """Text of remarkable samples by source and line's offset: evidence."""
        self.peaks: dict[int, tuple[int, float]] = {}
        """Of each source how many samples there were and the largest value: what is kept of a log must not depend on
        what other logs said meanwhile."""
        self.gone = 0
        """Samples that were let go of."""
        self._looked = 0
        self._steady = True

    def __len__(self) -> int:
        return len(self.values)

    @property
    def ever(self) -> int:
        """Samples that there have been."""
        return len(self.values) + self.gone

    def ref(self, index: int) -> Ref:
        """Where sample `index` stands."""
        return Ref(self.sources[index], self.lines[index], self.offsets[index])

    def text(self, index: int) -> str:
        """The line of sample `index`, "" when it was not kept."""
        return self.texts.get((self.sources[index], self.offsets[index]), "")

    def steady(self) -> bool:
        """Whether all samples are of one source and in time order; only what is new since the last call is judged."""
        size = len(self)
        if self._steady and self._looked < size:
            begin = max(0, self._looked - 1)
            times, sources = self.times[begin:], self.sources[begin:]
            self._steady = sources.count(sources[0]) == len(sources) and list(times) == sorted(times)
        self._looked = size
        return self._steady

    def thin(self, larger_is_kept: bool = True) -> tuple[int, int]:
        """Halves the older half; returns how many samples went, and how many bytes of their lines."""
        half = len(self) // 2 // 2 * 2
        # Of each two neighbours the second one stays only where it is the better one.
        second = bytes(map(gt if larger_is_kept else lt, self.values[1:half:2], self.values[0:half:2]))
        kept = bytearray(half)
        kept[1::2], kept[0::2] = second, second.translate(_OTHER)
        gone = set(compress(zip(self.sources, self.offsets, strict=True), kept.translate(_OTHER)))
        self._looked = 0
        self.gone += half // 2
        for name in ("times", "values", "sources", "lines", "offsets"):
            held: array[float] = getattr(self, name)
            setattr(self, name, array(held.typecode, compress(held, kept)) + held[half:])
        before = sum(map(text_bytes, self.texts.values()))
        if not gone.isdisjoint(self.texts):  # a line that tells two of the samples may have lost but one
            gone.difference_update(zip(self.sources, self.offsets, strict=True))
            self.texts = {place: text for place, text in self.texts.items() if place not in gone}
        return half // 2, before - sum(map(text_bytes, self.texts.values()))


def text_bytes(text: str) -> int:
    """What a line takes that is kept as evidence."""
    return _TEXT_BYTES + len(text)


# --- What was observed of a run, bounded by a byte budget ---
#
# Samples are kept in arrays, spans as objects. When the budget is spent the oldest half of the largest series is
# thinned to every second sample (keeping the larger of each pair, so that peaks stay) and of the oldest spans mostly
# the longest are kept; how many went is counted in `dropped`.

NOT_FINITE = "_not_finite"
"""Behind the name of a metric: the mark of its samples that are nan or infinite."""
DEFAULT_BYTES = 256 * 1024 * 1024
_SAMPLE_BYTES = 8 + 8 + 4 + 8 + 8
_SPAN_BYTES = 820
_UPDATE_BYTES = 2600
"""As measured: with the lines that they hold."""
_S = TypeVar("_S", bound=Span)
_FIRST_TEXTS = 64
_NO_PEAK = (0, float("-inf"))
_MOST_ABANDONED = 100


@dataclass(frozen=True, slots=True)
class HangNote:
    """The rank that holds up a hung run."""

    ranks: tuple[int, ...]
    """Empty where no rank is to blame, or where the dumps do not decide."""
    why: str
    """`13 of 14 waiting ranks wait for all_reduce 5 in default_pg`."""
    refs: tuple[tuple[Ref, str], ...] = ()
    """The last lines of these ranks."""


class Store:
    """Everything that was observed."""

    def __init__(self, budget: int = DEFAULT_BYTES, remarkable: Callable[[str, float], bool] | None = None) -> None:
        self.budget = budget
        self.remarkable = remarkable or (lambda _metric, _value: True)
        """Whether the line of a sample is kept as evidence."""
        self.sources: list[SourceState] = []
        self.series: dict[tuple[str, str], Series] = {}
        self.marks: dict[tuple[str, str], Series] = {}
        self.steps: dict[str, Series] = {}
        self.spans: dict[str, deque[Span]] = {}
        self.updates: deque[Update] = deque()
        self.dropped: Counter[str] = Counter()
        self.forgot: Callable[[Sequence[Update]], None] = lambda _: None
        """Hears of weight updates that were let go of; whoever puts them together knows them still."""
        self.opened: Callable[[], Iterable[Span]] = tuple
        """Spans that were told to begin and not to end yet; whoever puts spans together knows them."""
        self.abandoned: deque[Span] = deque(maxlen=_MOST_ABANDONED)
        """Those that an earlier run in the same log left open: nobody waits any more."""
        self.progress = ProgressLog()
        """What proves that the run goes on, and what says that it failed."""
        self.hang: HangNote | None = None
        """What flight-recorder dumps next to the logs show of a hang."""
        self.version = 0
        """Grows with every change: readers compare it to know whether they must look again."""
        self.shifted = 0
        self.moves: dict[int, float] = {}
        """Seconds by which each log moved as a whole since somebody took these: its true time was told late."""
        """How often something that was told before was moved on the axis."""
        self._bytes = 0
        self._seq = 0

    def next_seq(self) -> int:
        """Numbers spans and updates as their first lines come."""
        self._seq += 1
        return self._seq

    @property
    def bytes(self) -> int:
        """Estimate of what is held."""
        return self._bytes

    def add_source(self, spec: str) -> SourceState:
        """A new log."""
        state = SourceState(spec, len(self.sources))
        self.sources.append(state)
        return state

    def sample(
        self, metric: str, group: str, time: float, value: float, source: int, line: int, offset: int, text: str
    ) -> None:
        """Adds a sample; its line is kept when the value is remarkable, the largest so far or one of the first.

        One that is nan or infinite is no sample that anything can be worked out from: it is marked, and counted apart.
        """
        if value - value != 0.0:
            self.mark(metric + NOT_FINITE, group, time, 1.0, source, line, offset, text)
            return
        series = self.series.get((metric, group))
        if series is None:
            series = self.series[metric, group] = Series(metric, group)
        series.times.append(time)
        series.values.append(value)
        series.sources.append(source)
        series.lines.append(line)
        series.offsets.append(offset)
        self._bytes += _SAMPLE_BYTES
        count, peak = series.peaks.get(source, _NO_PEAK)
        series.peaks[source] = (count + 1, value if value > peak else peak)
        if count >= _FIRST_TEXTS and value <= peak and not self.remarkable(metric, value):
            return
        series.texts[source, offset] = text
        self._bytes += text_bytes(text)

    def mark(
        self, name: str, group: str, time: float, count: float, source: int, line: int, offset: int, text: str
    ) -> None:
        """Adds something countable."""
        self._append(self.marks, (name, group), Series(name, group), time, count, source, line, offset, text)

    def step(self, component: str, time: float, step: float, source: int, line: int, offset: int, text: str) -> None:
        """Adds progress of a component."""
        series = self.steps.get(component)
        if series is None:
            series = self.steps[component] = Series("step", component)
        self._put(series, time, step, source, line, offset, "")

    def _append(
        self,
        table: dict[tuple[str, str], Series],
        key: tuple[str, str],
        fresh: Series,
        time: float,
        value: float,
        source: int,
        line: int,
        offset: int,
        text: str,
    ) -> None:
        self._put(table.setdefault(key, fresh), time, value, source, line, offset, text)

    def _put(self, series: Series, time: float, value: float, source: int, line: int, offset: int, text: str) -> None:
        series.times.append(time)
        series.values.append(value)
        series.sources.append(source)
        series.lines.append(line)
        series.offsets.append(offset)
        self._bytes += _SAMPLE_BYTES
        if text and len(series.texts) < 4096:
            series.texts[source, offset] = text
            self._bytes += text_bytes(text)

    def span(self, span: Span) -> None:
        """Adds a span other than a weight update."""
        spans = self.spans.get(span.kind)
        if spans is None:
            spans = self.spans[span.kind] = deque()
        spans.append(span)
        self._bytes += _SPAN_BYTES

    def update(self, update: Update) -> None:
        """Adds a weight update; its legs may still come."""
        self.updates.append(update)
        self._bytes += _UPDATE_BYTES

    def settle(self) -> None:
        """Thins out until the budget is kept; called after each block."""
        while self._bytes > self.budget and self._thin():
            pass

    def _thin(self) -> bool:
        before = self._bytes
        every = [*self.series.values(), *self.marks.values(), *self.steps.values()]
        largest = max(every, key=len, default=None)
        span_count = sum(len(spans) for spans in self.spans.values())
        weights = {
            "samples": sum(map(len, every)) * _SAMPLE_BYTES,
            "spans": span_count * _SPAN_BYTES,
            "updates": len(self.updates) * _UPDATE_BYTES,
        }
        kind = max(weights, key=lambda name: weights[name])
        if kind == "samples" and largest is not None and len(largest) >= 64:
            gone, text_bytes = largest.thin()
            self.dropped["samples"] += gone
            self._bytes -= gone * _SAMPLE_BYTES + text_bytes
        elif kind == "spans" and span_count >= 64:
            spans = max(self.spans.values(), key=len)
            gone = len(_thin_spans(spans))
            self.dropped["spans"] += gone
            self._bytes -= gone * _SPAN_BYTES
        elif len(self.updates) >= 64:
            updates = _thin_spans(self.updates)
            self.dropped["updates"] += len(updates)
            self._bytes -= len(updates) * _UPDATE_BYTES
            self.forgot(updates)
        return self._bytes < before

    def shift(self, source: int, seconds: float) -> None:
        """Moves all that one log said so far by `seconds` (its first date came after `t=` lines)."""
        self.shifted += 1
        self.moves[source] = self.moves.get(source, 0.0) + seconds
        self.progress.shift(source, seconds)
        for series in self.all_series():
            for at, index in enumerate(series.sources):
                if index == source:
                    series.times[at] += seconds
        for span in [*self.updates, *(span for spans in self.spans.values() for span in spans)]:
            if span.source == source:
                span.start = None if span.start is None else span.start + seconds
                span.end = None if span.end is None else span.end + seconds

    def all_series(self) -> Iterator[Series]:
        """Samples, marks and steps."""
        yield from self.series.values()
        yield from self.marks.values()
        yield from self.steps.values()


def _thin_spans(spans: deque[_S]) -> list[_S]:
    """Halves the older half: its longest two fifths stay, and every sixth of the others; returns those that went."""
    half = len(spans) // 2
    old = [spans.popleft() for _ in range(half)]
    lengths = [-(span.duration_s or 0.0) for span in old]
    by_length = sorted(range(half), key=lengths.__getitem__)  # of those of one length the first one is first
    kept = {*by_length[: half * 2 // 5], *sorted(by_length[half * 2 // 5 :])[::6]}
    spans.extendleft(old[at] for at in range(half - 1, -1, -1) if at in kept)
    return [span for at, span in enumerate(old) if at not in kept]


# --- The spans of the last while: a run is watched for days, and each look at it is at minutes ---
#
# What it gives is a superset of what reaches into the time asked for; who asks still cuts.

UPDATES = "weight-update"
_SPARE_S = 60.0
_FEW = 256
_NONE: deque[Span] = deque()


class Recent:
    """Remembers which spans of a store are recent, so that the others need not be looked at again."""

    def __init__(self, store: Store, opened: Callable[[], Iterable[Span]] = tuple) -> None:
        self._store = store
        self.opened = opened
        """Spans that have begun and not ended, weight updates apart."""
        self._kept: dict[str, _Kept] = {}

    @property
    def kinds(self) -> list[str]:
        """Kinds of spans that the store holds, weight updates among them."""
        return [*self._store.spans, *([UPDATES] if self._store.updates else [])]

    def spans(self, kind: str, since: float) -> Sequence[Span]:
        """Spans of a kind that end at `since` or later, or not yet, and some earlier ones, in no order.

        `since` is in seconds on the logs' own axes: the earliest of them when they lie apart (see `on_own_axes`).
        """
        held: deque[Update] | deque[Span] = self._store.updates
        if kind != UPDATES:
            held = self._store.spans.get(kind, _NONE)
        kept = self._kept.get(kind)
        stamp = (self._store.dropped["spans"], self._store.dropped["updates"], self._store.shifted)
        size = len(held)
        if kept is None or kept.stamp != stamp or since < kept.since or size < kept.seen:
            kept = self._kept[kind] = _Kept(stamp, since - _SPARE_S)
        # A deque gives its end quickly and its middle slowly: what is new is taken from the end.
        fresh = list(islice(reversed(held), size - kept.seen))
        kept.seen = size
        kept.spans += [span for span in fresh if _reaches(span, kept.since) or _may_move(span)]
        if len(kept.spans) > 2 * kept.after_cut + _FEW:
            kept.since = since - _SPARE_S
            kept.spans = [span for span in kept.spans if _reaches(span, kept.since)]
            kept.after_cut = len(kept.spans)
        return kept.spans


def on_own_axes(time: float, shifts: Mapping[int, float]) -> float:
    """The earliest that a moment of the run's axis is on the axis of any log; logs without a shift are on the run's."""
    return time - max((0.0, *shifts.values()))


class _Kept:
    __slots__ = ("after_cut", "seen", "since", "spans", "stamp")

    def __init__(self, stamp: tuple[int, int, int], since: float) -> None:
        self.stamp, self.since = stamp, since
        self.seen = 0
        self.after_cut = 0
        self.spans: list[Span] = []


def _reaches(span: Span, since: float) -> bool:
    return span.end is None or span.end >= since


def _may_move(span: Span) -> bool:
    """So far only the server told of it: once the client does it lies on the client's axis, which may be hours away."""
    return isinstance(span, Update) and span.client is None
