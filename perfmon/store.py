"""What was observed of a run, bounded by a byte budget.

Samples are kept in arrays, spans as objects. When the budget is spent the oldest half of the largest series is thinned
to every second sample (keeping the larger of each pair, so that peaks stay) and of the oldest spans mostly the longest
are kept; how many went is counted in `dropped`.
"""

from __future__ import annotations

from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from .model import Gap, Ref, Span, Update

DEFAULT_BYTES = 256 * 1024 * 1024
_SAMPLE_BYTES = 8 + 8 + 4 + 8 + 8
_SPAN_BYTES = 820
_UPDATE_BYTES = 2600
"""As measured: with the lines that they hold."""
_TEXT_BYTES = 250
"""Beside its characters: the string, its place, and the entry of the table."""
_MAX_GAPS = 4096
_LATE_LINES = 200
_COARSE_S = 1.5
"""So many lines late a line may come, and so much earlier it is no late one: see `perfmon.sources.silence`."""
_S = TypeVar("_S", bound=Span)
_FIRST_TEXTS = 64
_NO_PEAK = (0, float("-inf"))
_MAX_NOTES = 8


class Series:
    """The samples of one metric and group, in the order in which they were read."""

    __slots__ = (
        "_looked", "_steady", "group", "lines", "metric", "offsets", "peaks", "sources", "texts", "times", "values",
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
        self._looked = 0
        self._steady = True

    def __len__(self) -> int:
        return len(self.values)

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
        pick = max if larger_is_kept else min
        keep = [pick((i, i + 1), key=lambda at: self.values[at]) for i in range(0, half, 2)]
        keep += range(half, len(self))
        gone = len(self) - len(keep)
        self._looked = 0
        for name in ("times", "values", "sources", "lines", "offsets"):
            old: array[float] = getattr(self, name)
            setattr(self, name, array(old.typecode, [old[at] for at in keep]))
        left = set(zip(self.sources, self.offsets, strict=True))
        before = sum(map(_text_bytes, self.texts.values()))
        self.texts = {place: text for place, text in self.texts.items() if place in left}
        return gone, before - sum(map(_text_bytes, self.texts.values()))


@dataclass(slots=True)
class SourceState:
    """What is known of one log."""

    spec: str
    index: int
    bytes: int = 0
    lines: int = 0
    events: int = 0
    skipped: int = 0
    errors: int = 0
    first: float | None = None
    """Seconds on the log's own axis."""
    last: float | None = None
    kind: int | None = None
    """Kind of its stamps (EPOCH, LOCAL, YEARLESS, DAYTIME), None when it has only `t=` or no clock."""
    monotonic: bool = False
    mono_to_wall: float | None = None
    stepped_back: int = 0
    stepped: int = 0
    """How often its clock was set and that was taken out: see `perfmon.clocksteps`."""
    pseudo: float = 0.0
    """Clock of a log without any clock: the durations that its lines reported, added up in order."""
    undated: bool = False
    """Something was told before any line told a time: the first time that is told dates it."""
    gaps: list[Gap] = field(default_factory=list)
    """Stretches of 10 s and more without a dated line."""
    patterns: Counter[int] = field(default_factory=Counter)
    """Lines per pattern index."""
    notes: list[str] = field(default_factory=list)
    components: set[str] = field(default_factory=set)
    idle_silence: bool = False
    polled: bool = False
    """Its lines are a poller's: what it tells counts, but that it goes on says nothing about the run."""
    ahead_s: float | None = None
    """Of such a log: seconds to add to its axis to get the run's, as the arrivals of its lines told; None: unknown."""
    ended: bool = False
    written_then: bool | None = None
    """Its file was last written when its last line was printed; None: nobody knows. See `perfmon.filetimes`."""
    midnight: float = 0.0
    """Then: the midnight from which a log without dates counts, in seconds since 1970 by the clock of its zone."""
    zone_s: float = 0.0
    """By how much that clock is ahead of UTC."""
    held_s: float = 0.0
    """Seconds for which its lines are held back before they come, as who watches it sees; they come in bursts then."""
    murmurs: bool = False
    """More came after its last dated line, which told no time."""
    clocked: bool = False
    """Some line of it has a clock."""
    tail: float | None = None
    """Time of the last dated line, on the log's own axis."""
    last_line: tuple[int, str] = (0, "")
    """Its number and text."""
    latest: float | None = None
    """The latest time of its last lines: some come late."""
    latest_line: tuple[int, str] = (0, "")

    @property
    def clockless(self) -> bool:
        """No line of it has a clock."""
        return not self.clocked

    def note(self, text: str) -> None:
        """Remembers something odd, the first few of its kind."""
        if len(self.notes) < _MAX_NOTES and text not in self.notes:
            self.notes.append(text)

    def heard(self, time: float, line: tuple[int, str]) -> None:
        """One of the last dated lines (number, text); of those the latest counts."""
        if not self._is_behind(time, line):
            self.latest, self.latest_line = time, line

    def reached(self, time: float, line: tuple[int, str]) -> tuple[float, tuple[int, str]]:
        """How far the log was at that line, by those before it too; and the line that says so."""
        return (self.latest, self.latest_line) if self._is_behind(time, line) and self.latest else (time, line)

    def _is_behind(self, time: float, line: tuple[int, str]) -> bool:
        near = line[0] - self.latest_line[0] <= _LATE_LINES
        return self.latest is not None and near and time < self.latest - _COARSE_S

    def quiet(self, start: float, end: float, line: tuple[int, str], upto: int = 0) -> None:
        """A stretch without a dated line, after `line` (number, text) and up to line `upto`."""
        self.gaps.append(Gap(start, end, *line, upto))
        if len(self.gaps) > _MAX_GAPS:
            self.gaps = sorted(sorted(self.gaps, key=lambda gap: gap.start - gap.end)[: _MAX_GAPS // 2], key=_start)


def _start(gap: Gap) -> float:
    return gap.start


_MOST_ABANDONED = 100


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
        self.opened: Callable[[], Iterable[Span]] = tuple
        """Spans that were told to begin and not to end yet; whoever puts spans together knows them."""
        self.abandoned: deque[Span] = deque(maxlen=_MOST_ABANDONED)
        """Those that an earlier run in the same log left open: nobody waits any more."""
        self.version = 0
        """Grows with every change: readers compare it to know whether they must look again."""
        self.shifted = 0
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
        """Adds a sample; its line is kept when the value is remarkable, the largest so far or one of the first."""
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
        self._bytes += _text_bytes(text)

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
            self._bytes += _text_bytes(text)

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
            gone = _thin_spans(spans)
            self.dropped["spans"] += gone
            self._bytes -= gone * _SPAN_BYTES
        elif len(self.updates) >= 64:
            gone = _thin_spans(self.updates)
            self.dropped["updates"] += gone
            self._bytes -= gone * _UPDATE_BYTES
        return self._bytes < before

    def shift(self, source: int, seconds: float) -> None:
        """Moves all that one log said so far by `seconds` (its first date came after `t=` lines)."""
        self.shifted += 1
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


def _text_bytes(text: str) -> int:
    return _TEXT_BYTES + len(text)


def _thin_spans(spans: deque[_S]) -> int:
    """Halves the older half: its longest two fifths stay, and every sixth of the others; returns how many went."""
    half = len(spans) // 2
    old = [spans.popleft() for _ in range(half)]
    by_length = sorted(range(half), key=lambda at: (-(old[at].duration_s or 0.0), at))
    kept = sorted(by_length[: half * 2 // 5] + sorted(by_length[half * 2 // 5 :])[::6])
    spans.extendleft(old[at] for at in reversed(kept))
    return half - len(kept)
