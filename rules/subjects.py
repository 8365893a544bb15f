"""Makes the items that a signature judges, one by one, out of the run's view."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from perfmon.model import Ref
from perfmon.stats import median

from .bands import Bands
from .conditions.alternatives import AnyOf
from .conditions.base import Condition
from .conditions.threshold import Threshold
from .schema import Signature, Subject
from .silence import Quiet
from .view import UPDATE, Item, Track, View

UPDATED = "weights-updated"
"""The mark of lines that say that the server has new weights, without the durations of trace lines."""
POLICY = "policy"
"""The component whose steps are the policies that rollouts come from."""
_SAME_UPDATE_S = 5.0
_SEEN_POLICIES = 2
"""One that was there before, and one that came with the last update."""

Event = tuple[float, list[tuple[Ref, str]]]
"""When it began, and the lines that say so."""


@dataclass(slots=True)
class Stream:
    """Items that follow one another: updates of one server, samples of one log and group."""

    count: int = 0
    first: float = 0.0
    last: float = 0.0

    def add(self, time: float) -> int:
        """Counts an item; returns its place."""
        if not self.count:
            self.first = time
        self.last = time
        self.count += 1
        return self.count - 1

    @property
    def interval(self) -> float:
        """Mean seconds between items; 0 for a single one."""
        return (self.last - self.first) / (self.count - 1) if self.count > 1 else 0.0


@dataclass(slots=True)
class Judged:
    """What a signature looks at in a run."""

    items: list[Item] = field(default_factory=list)
    """Those that can hold the first condition."""
    total: int = 0
    """How many there were in all."""
    streams: dict[object, Stream] = field(default_factory=dict)

    def stream(self, key: object) -> Stream:
        """The stream of this key."""
        found = self.streams.get(key)
        if found is None:
            found = self.streams[key] = Stream()
        return found


def items_of(subject: Subject, signature: Signature, view: View) -> Judged:
    """All items of one subject."""
    if subject.kind == "span":
        return _span_items(subject.name, signature, view)
    if subject.kind in ("metric", "mark"):
        track = view.track(subject.name) if subject.kind == "metric" else view.marks.get(subject.name)
        return Judged() if track is None else _sample_items(subject.name, track, signature, view)
    if subject.kind == "quiet":
        quiet = view.quiet_run if subject.name == "all" else view.quiet_logs
        return _numbered(_quiet_item(stretch) for stretch in quiet)
    return _numbered(_absences(subject.name, view))


Test = Callable[[float], bool]


def _possible(condition: Condition, bands: Bands) -> dict[str, Test] | None:
    """By metric a quick test that some value must pass for the condition to hold: most items never do."""
    if isinstance(condition, Threshold):
        test = _test(condition, bands)
        return None if test is None else {condition.metric: test}
    if not isinstance(condition, AnyOf):
        return None
    tests: dict[str, Test] = {}
    for part in condition.of:
        test = _test(part, bands) if isinstance(part, Threshold) and part.within_s <= 0 else None
        if test is None or not isinstance(part, Threshold) or part.metric in tests:
            return None
        tests[part.metric] = test
    return tests


def _test(condition: Threshold, bands: Bands) -> Test | None:
    limits = condition.limits
    if limits.above is not None and not limits.band:
        above = limits.above if limits.clear is None else limits.clear
        return lambda value: value > above
    band = bands.get(condition.metric)
    if limits.band == "critical" and band is not None and band.higher_is_worse:
        good = band.good
        return lambda value: value >= good
    return None


def _quick(signature: Signature, view: View) -> dict[str, Test] | None:
    first = signature.conditions[0]
    return _possible(first, view.bands) if first.required else None


def _span_items(kind: str, signature: Signature, view: View) -> Judged:
    items = view.spans(kind)
    quick = _quick(signature, view)
    tests = list(quick.items()) if quick else []
    if tests and not any(metric in item.values for item in items for metric, _ in tests):
        tests = []
    judged = Judged()
    names, found, streams = signature.identity, judged.items, judged.streams
    key = ""
    for item in items:
        passed = _passed(item.values, tests)
        if passed is None:
            continue
        if names:
            key = "/".join([str(item.fields.get(name, "")) for name in names])
        item.stream = key
        stream = streams.get(key)
        item.at = (judged.stream(key) if stream is None else stream).add(item.end)
        if passed:
            found.append(item)
    judged.total = sum(stream.count for stream in streams.values())
    return judged


def _passed(values: Mapping[str, float], tests: list[tuple[str, Test]]) -> bool | None:
    """Whether one of the values passes its test; None when there is none of them."""
    if not tests:
        return True
    told: bool | None = None
    for metric, test in tests:
        value = values.get(metric)
        if value is not None:
            if test(value):
                return True
            told = False
    return told


def _sample_items(name: str, track: Track, signature: Signature, view: View) -> Judged:
    quick = _quick(signature, view) or {}
    test = quick.get(name)
    judged = Judged(total=len(track))
    floors: dict[object, float] = {}
    skip = signature.skip_first
    times = track.times
    for index, value in enumerate(track.values):
        key = (track.source(index), track.group(index))
        time = times[index]
        at = judged.stream(key).add(time)
        if at + track.earlier.get(key, 0) < skip:
            floors[key] = time
            judged.total -= 1
            continue
        if test is not None and not test(value):
            continue
        judged.items.append(
            Item(
                time, time, {name: value}, {}, (track.ref(index),), key[1], "", key[0],
                stream=key, at=at, floor=floors.get(key, float("-inf")),
            )
        )  # fmt: skip
    return judged


def _numbered(items: Iterable[Item]) -> Judged:
    judged = Judged()
    for item in items:
        item.stream = item.source
        item.at = judged.stream(item.stream).add(item.end)
        judged.items.append(item)
        judged.total += 1
    return judged


def _quiet_item(quiet: Quiet) -> Item:
    return Item(
        quiet.start,
        quiet.end,
        {"usual_s": quiet.usual_s, "ended": float(quiet.ended), "duration_s": quiet.end - quiet.start},
        {},
        quiet.refs,
        source=quiet.source,
    )


# --- absence --------------------------------------------------------------------------------------------------
def _absences(kind: str, view: View) -> list[Item]:
    """Stretches between neighbouring spans of a kind, from the last one to the end, or the whole window.

    For weight updates a log that only marks them counts too. None at all says something only of a run whose trace
    lines would show them: one that tells of staleness.
    """
    low, high = view.window
    events = _events(kind, view)
    if not events:
        whole = high > low and "staleness" in view.metrics and not _policy_advances(low, high, view)
        values = {"usual_s": 0.0, "none": 1.0, "duration_s": high - low}
        return [Item(low, high, values, {}, _meanwhile(low, high, view))] if whole else []
    starts = [start for start, _ in events]
    between = [b - a for a, b in pairwise(starts)]
    if len(between) < 2:
        return []
    usual = median(between)
    edges = [*zip(events, starts[1:], strict=False), (events[-1], min(high, _heard_until(events, view)))]
    return [
        Item(start, end, {"usual_s": usual, "none": 0.0, "duration_s": end - start}, {}, _proof(refs, start, end, view))
        for (start, refs), end in edges
        if end - start > usual
        and not _policy_advances(start, end, view)
        and not any(start <= low and high <= end for low, high in view.apart)
    ]


def _proof(refs: Sequence[tuple[Ref, str]], start: float, end: float, view: View) -> tuple[tuple[Ref, str], ...]:
    return (*refs, *_meanwhile(start, end, view))


def _meanwhile(start: float, end: float, view: View) -> tuple[tuple[Ref, str], ...]:
    """The first and the last line that shows the run going on in a stretch: what is absent has no line itself."""
    track = view.track("staleness")
    first, stop = track.between(start, end)
    return tuple(track.ref(at) for at in dict.fromkeys((first, stop - 1)) if first <= at < stop)


def _policy_advances(start: float, end: float, view: View) -> bool:
    """Rollouts come from newer and newer policies meanwhile: the updates happen, their lines are missing."""
    track = view.steps.get(POLICY)
    if track is None:
        return False
    first, stop = track.between(start, end)
    return len(set(track.values[first:stop])) > _SEEN_POLICIES


def _heard_until(events: Sequence[Event], view: View) -> float:
    """The end of the logs that told of these events: what comes later they could not tell."""
    tellers = {ref.source for _, refs in events for ref, _ in refs}
    ends = [
        (state.last or 0.0) + view.shifts.get(state.index, 0.0)
        for state in view.store.sources
        if state.index in tellers and state.last is not None
    ]
    return max(ends, default=float("inf"))


def _events(kind: str, view: View) -> list[Event]:
    """When spans of a kind began, with their lines; several servers' updates, or lines about one, count once."""
    spans = [(span.start, span.end, list(span.refs)) for span in view.spans(kind)]
    marks = view.marks.get(UPDATED) if kind == UPDATE else None
    told = [(marks.times[at], marks.times[at], [marks.ref(at)]) for at in range(len(marks))] if marks else []
    events: list[Event] = []
    until = float("-inf")
    for start, end, refs in sorted(spans + told, key=lambda event: event[0]):
        if start > until + _SAME_UPDATE_S:
            events.append((start, refs))
        until = max(until, end)
    return events
