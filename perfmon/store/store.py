"""The observations of a run, bounded by a byte budget: spans, marks, series, recent spans."""

from __future__ import annotations

from array import array
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress, islice
from operator import gt
from typing import TypeVar

from perfmon.core import Gap, Ref, Shift, Span, Update
from perfmon.sources import SourceClock

from .failures import FailureLog
from .progress import ProgressLog
from .source_state import SourceState

# --- The samples of one metric, in arrays ---

_OTHER = bytes.maketrans(b"\0\1", b"\1\0")
_TEXT_BYTES = 250
"""In addition to its characters: the string, its place, and the entry of the table."""


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
        """By source the number of samples and the largest value: logs are kept independently of each other."""
        self.gone = 0
        """Number of dropped samples."""
        self._looked = 0
        self._steady = True

    def __len__(self) -> int:
        return len(self.values)

    @property
    def ever(self) -> int:
        """Number of samples, dropped ones included."""
        return len(self.values) + self.gone

    def append(self, time: float, value: float, ref: Ref) -> None:
        """Add a sample."""
        source, line, offset = ref
        self.times.append(time)
        self.values.append(value)
        self.sources.append(source)
        self.lines.append(line)
        self.offsets.append(offset)

    def ref(self, index: int) -> Ref:
        """Return the line of sample `index`."""
        return Ref(self.sources[index], self.lines[index], self.offsets[index])

    def text(self, index: int) -> str:
        """The line of sample `index`, "" when it was not kept."""
        return self.texts.get((self.sources[index], self.offsets[index]), "")

    def steady(self) -> bool:
        """Return True if all samples are of one source and in time order; only new ones are checked."""
        size = len(self)
        if self._steady and self._looked < size:
            begin = max(0, self._looked - 1)
            times, sources = self.times[begin:], self.sources[begin:]
            self._steady = sources.count(sources[0]) == len(sources) and list(times) == sorted(times)
        self._looked = size
        return self._steady

    def thin(self) -> tuple[int, int]:
        """Halves the older half; returns how many samples went, and how many bytes of their lines."""
        half = len(self) // 2 // 2 * 2
        # Of each two neighbours the second one stays only where it is the larger one.
        second = bytes(map(gt, self.values[1:half:2], self.values[0:half:2]))
        kept = bytearray(half)
        kept[1::2], kept[0::2] = second, second.translate(_OTHER)
        gone = set(compress(zip(self.sources, self.offsets, strict=True), kept.translate(_OTHER)))
        self._looked = 0
        self.gone += half // 2
        for name in ("times", "values", "sources", "lines", "offsets"):
            held: array[float] = getattr(self, name)
            setattr(self, name, array(held.typecode, compress(held, kept)) + held[half:])
        before = sum(map(text_bytes, self.texts.values()))
        if not gone.isdisjoint(self.texts):  # a line with two of the samples may have lost but one
            gone.difference_update(zip(self.sources, self.offsets, strict=True))
            self.texts = {place: text for place, text in self.texts.items() if place not in gone}
        return half // 2, before - sum(map(text_bytes, self.texts.values()))


def text_bytes(text: str) -> int:
    """Bytes of a line that is kept as evidence."""
    return _TEXT_BYTES + len(text)


_TOGETHER_S = 60.0
"""Groups whose last samples are no further apart report at the same time."""


def last_value(held: Sequence[Series], *, lowest: bool) -> float | None:
    """The last value; of several groups with recent values the lowest or highest one. None without any."""
    newest = max((series.times[-1] for series in held if len(series)), default=None)
    if newest is None:
        return None
    values = [series.values[-1] for series in held if len(series) and series.times[-1] >= newest - _TOGETHER_S]
    return min(values) if lowest else max(values)


# --- What was observed of a run, bounded by a byte budget ---
#
# Samples are kept in arrays, spans as objects. When the budget is spent the oldest half of the largest series is
# thinned to every second sample (keeping the larger of each pair, so that peaks stay) and of the oldest spans mostly
# the longest are kept; how many went is counted in `dropped`.

NOT_FINITE = "_not_finite"
"""Suffix of a metric: the mark of its samples that are nan or infinite."""
DEFAULT_BYTES = 256 * 1024 * 1024
_SAMPLE_BYTES = 8 + 8 + 4 + 8 + 8
_SPAN_BYTES = 820
_UPDATE_BYTES = 2600
"""As measured: with the lines that they hold."""
MOST_NAMES = 10_000
"""Groups (engines, ranks, GPUs, hosts) of one metric; samples of further ones are dropped."""
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
        """Returns True for a metric and value of which the line is kept as evidence."""
        self.sources: list[SourceState] = []
        self.series: dict[tuple[str, str], Series] = {}
        self.marks: dict[tuple[str, str], Series] = {}
        self.steps: dict[str, Series] = {}
        self.spans: dict[str, deque[Span]] = {}
        self.updates: deque[Update] = deque()
        self.dropped: Counter[str] = Counter()
        self._names: Counter[str] = Counter()
        """Number of groups of each metric and mark."""
        self.forgot: Callable[[Sequence[Update]], None] = lambda _: None
        """Called with weight updates that were dropped."""
        self.opened: Callable[[], Collection[Span]] = tuple
        """Returns the spans that have started and not ended, other than weight updates; set by the assembler."""
        self.abandoned: deque[Span] = deque(maxlen=_MOST_ABANDONED)
        """Open spans of an earlier run in the same log."""
        self.progress = ProgressLog()
        self.failures = FailureLog()
        """Progress of the run, and failures."""
        self.hang: HangNote | None = None
        """Summary of a hang from flight-recorder dumps next to the logs."""
        self.version = 0
        """Grows with every change."""
        self.shifted = 0
        """Counts how often observations were moved on the axis."""
        self.moves: dict[int, float] = {}
        """Seconds by which each log moved as a whole since these were taken: its true time came late."""
        self._bytes = 0
        self._seq = 0

    def next_seq(self) -> int:
        """Return the next number of a span or update."""
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

    def sample(self, metric: str, group: str, time: float, value: float, ref: Ref, text: str) -> None:
        """Add a sample; its line is kept if the value is remarkable, the largest so far or one of the first.

        One that is nan or infinite cannot be used in statistics: it is counted as a mark instead.
        """
        if value - value != 0.0:
            self.mark(metric + NOT_FINITE, group, time, 1.0, ref, text)
            return
        series = self.series.get((metric, group))
        if series is None and (series := self._new_series(self.series, metric, group)) is None:
            return
        series.append(time, value, ref)
        self._bytes += _SAMPLE_BYTES
        source = ref.source
        count, peak = series.peaks.get(source, _NO_PEAK)
        series.peaks[source] = (count + 1, value if value > peak else peak)
        if count >= _FIRST_TEXTS and value <= peak and not self.remarkable(metric, value):
            return
        series.texts[ref.source, ref.offset] = text
        self._bytes += text_bytes(text)

    def mark(self, name: str, group: str, time: float, count: float, ref: Ref, text: str) -> None:
        """Add something countable."""
        series = self.marks.get((name, group))
        if series is None and (series := self._new_series(self.marks, name, group)) is None:
            return
        self._put(series, time, count, ref, text)

    def _new_series(self, held: dict[tuple[str, str], Series], name: str, group: str) -> Series | None:
        """Another group of a metric or mark; None where there are too many."""
        if self._names[name] >= MOST_NAMES:
            self.dropped["samples"] += 1
            return None
        self._names[name] += 1
        series = held[name, group] = Series(name, group)
        return series

    def step(self, component: str, time: float, step: float, ref: Ref) -> None:
        """Add a step of a component."""
        series = self.steps.setdefault(component, Series("step", component))
        self._put(series, time, step, ref, "")

    def _put(self, series: Series, time: float, value: float, ref: Ref, text: str) -> None:
        series.append(time, value, ref)
        self._bytes += _SAMPLE_BYTES
        if text and len(series.texts) < 4096:
            series.texts[ref.source, ref.offset] = text
            self._bytes += text_bytes(text)

    def span(self, span: Span) -> None:
        """Adds a span other than a weight update."""
        self.spans.setdefault(span.kind, deque()).append(span)
        self._bytes += _SPAN_BYTES

    def update(self, update: Update) -> None:
        """Add a weight update; its phases may still come."""
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
        """Move all observations of one log by `seconds` (its first date came after `t=` lines)."""
        self.moves[source] = self.moves.get(source, 0.0) + seconds
        self.move(source, lambda _time, _line: seconds)
        for span in chain(self.all_spans(), self.opened(), self.abandoned):
            if span.source == source:
                span.start = None if span.start is None else span.start + seconds
                span.end = None if span.end is None else span.end + seconds

    def extend(self, state: SourceState, time: float, *, early: bool = True) -> float:
        """Extend the extent of a log; its first clock also dates earlier lines.

        Without `early` not beyond its lines that were read: of those that are only dated most are not, see
        `SourceState.record_gap`.
        """
        if early:
            state.recorded = time if state.recorded is None else max(state.recorded, time)
        if state.last is None:
            state.first = state.last = time
            state.clocked = True
            if state.undated:
                self.shift(state.index, time - state.pseudo)
                state.first = time - state.pseudo
        elif early and time > state.last:
            state.last = time
        elif early and state.first is not None and time < state.first:
            state.first = time
        return time

    def shift_source(self, state: SourceState, clock: SourceClock) -> None:
        """Move what a log has before its first date, or before a date that proved true, and note anomalies."""
        seconds = clock.rebased or 0.0
        clock.rebased = None
        if clock.jumped is not None:
            state.add_gap(*clock.jumped, *state.last_silence)
            self.progress.jumped(state.index, *clock.jumped)
            clock.jumped = None
        if clock.refused:
            state.note("dates more than a day away from neighbouring lines were ignored")
        if not seconds:
            return
        self.shift(state.index, seconds)
        state.shift(seconds)
        (line, text), (upto, next_text) = state.last_silence
        if upto and clock.last is not None:
            state.redated = Gap(clock.last, clock.last, line, text, upto, next_text)

    def move(self, source: int, by: Shift) -> None:
        """Move the samples and the progress of one log."""
        self.shifted += 1
        self.progress.move(source, by)
        self.failures.move(source, by)
        for series in self.all_series():
            for at, index in enumerate(series.sources):
                if index == source:
                    series.times[at] += by(series.times[at], series.lines[at])

    def all_series(self) -> Iterator[Series]:
        """Samples, marks and steps."""
        return chain(self.series.values(), self.marks.values(), self.steps.values())

    def all_spans(self) -> Iterator[Span]:
        """Weight updates and all other spans."""
        return chain(self.updates, *self.spans.values())


def _thin_spans(spans: deque[_S]) -> list[_S]:
    """Halve the older half: its longest two fifths stay, and every sixth of the others; return the dropped ones."""
    half = len(spans) // 2
    old = [spans.popleft() for _ in range(half)]
    lengths = [-(span.duration_s or 0.0) for span in old]
    by_length = sorted(range(half), key=lengths.__getitem__)  # of those of one length the first one is first
    kept = {*by_length[: half * 2 // 5], *sorted(by_length[half * 2 // 5 :])[::6]}
    spans.extendleft(old[at] for at in range(half - 1, -1, -1) if at in kept)
    return [span for at, span in enumerate(old) if at not in kept]


# --- Recent spans: a run is followed for days, and evaluations are about minutes ---
#
# The result is a superset of the spans in the requested time; callers clip.

UPDATES = "weight-update"
_SPARE_S = 60.0
_FEW = 256
_NONE: deque[Span] = deque()


class Recent:
    """Keeps the recent spans of a store, so that the others are not read again."""

    def __init__(self, store: Store) -> None:
        self._store = store
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
    """True if only the server logged it yet: the client's axis, which counts, may be hours away."""
    return isinstance(span, Update) and span.client is None
