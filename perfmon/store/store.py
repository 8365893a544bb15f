"""What was observed of a run, bounded by a byte budget.

Samples are kept in arrays, spans as objects. When the budget is spent the oldest half of the largest series is thinned
to every second sample (keeping the larger of each pair, so that peaks stay) and of the oldest spans mostly the longest
are kept; how many went is counted in `dropped`.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from .model import Span, Update
from .progress import ProgressLog
from .series import Series, text_bytes
from .sourcestate import SourceState

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
