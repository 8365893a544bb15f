"""Candidates: the items that a signature judges, one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from math import inf
from operator import itemgetter

from perfmon.core import Fields, Ref, Span, format_seconds, median
from perfmon.hangs import rank_words

from .conditions import AnyOf, Threshold
from .death import CAUSE_WORDS, WAITED
from .first_cause import task_of
from .goals import limit_items
from .open_spans import open_items
from .run_facts import EMPTY, UPDATE, Item, RunView, Stream, Track, View
from .signatures import Signature, Subject
from .silence import SourceGap
from .stalls import Stall

# --- Events before the window: how often something usually happened, and when it last did ---

_LOOKED_AT = 256
"""Of the newest: a run may be monitored for days."""
_MANY_STEPS = 10
"""Steps between two lines from which on their values are means of many."""
Occasion = tuple[float, float, Sequence[tuple[Ref, str]], str | None]
"""Start and end of a span or mark, its lines, and its server; None where the line names none."""


def _earlier(kind: str, mark: str, view: RunView) -> Iterator[Occasion]:
    """Spans of a kind, and marks of a name, of the last while before the window."""
    low = view.clip[0] if view.clip is not None else -inf
    return (one for one in (*_earlier_spans(kind, view), *_earlier_marks(mark, view)) if one[1] < low)


def _earlier_spans(kind: str, view: RunView) -> Iterator[Occasion]:
    spans: Sequence[Span] = view.store.updates if kind == UPDATE else view.store.spans.get(kind, ())
    for span in islice(reversed(spans), _LOOKED_AT):
        if span.start is not None and span.end is not None:
            shift = view.shift(span.source)
            yield (span.start + shift, span.end + shift, span.refs, str(span.fields.get("url", "")))


def _earlier_marks(name: str, view: RunView) -> Iterator[Occasion]:
    for series in view.marked(name):
        for at in range(max(0, len(series) - _LOOKED_AT), len(series)):
            time = series.times[at] + view.shift(series.sources[at])
            yield (time, time, [(series.ref(at), series.text(at))], None)


# --- The items of each kind of subject ---

UPDATED = "weights-updated"
"""The mark of lines that report new weights of a server, without the durations of trace lines."""
POLICY = "policy"
"""The component whose steps are the policies that rollouts come from."""
_SAME_UPDATE_S = 5.0
ALL_LOGS = -1
_ECHOES = 12
_KNOWN_POLICIES = 2
"""One that was there before, and one that came with the last update."""

_HOLD_TRAINERS = frozenset(("evaluation",))
"""Spans that cost something where a trainer waits for them: a log of nothing else is at its work."""
_OF_TRAINERS = ("loss", "batch-wait", "policy-wait", "train-step", "orchestrator-step")

_start = itemgetter(0)
Event = tuple[float, list[tuple[Ref, str]]]
"""Its start, and the lines that report it."""


@dataclass(slots=True)
class Judged:
    """The items of a signature in a run."""

    items: list[Item] = field(default_factory=list)
    """Those that can meet the conditions."""
    total: int = 0
    """The number of all."""
    streams: dict[object, Stream] = field(default_factory=dict)

    def stream(self, key: object) -> Stream:
        """The stream of this key."""
        found = self.streams.get(key)
        if found is None:
            found = self.streams[key] = Stream()
        return found


def items_of(subject: Subject, signature: Signature, view: View) -> Judged:
    """All items of one subject."""
    if subject.kind in ("span", "open") and subject.name in _HOLD_TRAINERS and not _trains(view):
        return Judged()
    if subject.kind == "span":
        return _span_items(subject.name, signature, view)
    if subject.kind in ("metric", "mark"):
        track = view.track(subject.name) if subject.kind == "metric" else view.marks.get(subject.name)
        return Judged() if track is None else _sample_items(subject.name, track, signature, view)
    if subject.kind == "open":
        return _numbered(open_items(subject.name, view))
    if subject.kind == "limit":
        return _numbered(limit_items(view))
    if subject.kind == "quiet":
        if subject.name == "all":
            return _numbered(_stall_item(stall, view) for stall in view.stalls)
        return _numbered(map(_gap_item, view.source_gaps))
    if subject.kind == "failure":
        return _numbered(_death_items(subject.name.split("|"), view))
    return _numbered(_absences(subject.name, view))


def _trains(view: View) -> bool:
    """True where some log shows steps of a trainer, or that it waits for its next one."""
    return any(track.is_step for track in view.activity.tracks) or view.has_any(_OF_TRAINERS) or bool(view.store.steps)


def _span_items(kind: str, signature: Signature, view: View) -> Judged:
    items = _with_values(view.spans(kind), signature)
    floors = [(name, *floor) for name, floor in _floors(signature, view).items()]
    judged = Judged([item for item in items if _is_above(item, floors)] if floors else items, len(items))
    names, streams = signature.identity, judged.streams
    for item in items if judged.items else ():  # else it does not matter which items follow one another
        fields = item.fields
        item.stream = key = "/".join([str(fields.get(name, "")) for name in names]) if names else ""
        stream = streams.get(key)
        if stream is None:
            stream = streams[key] = Stream()
        item.at = stream.add(item.start, item.end)
    return judged


def _is_above(item: Item, floors: Sequence[tuple[str, float, float]]) -> bool:
    values = item.values
    return any(values.get(name, missing) > floor for name, floor, missing in floors)


def _floors(signature: Signature, view: View) -> dict[str, tuple[float, float]]:
    """By metric the value that an item's own must be above for the first condition to hold, and what stands for a value
    that it does not have. Empty where own values do not decide.

    Nearly all items are below it: judging these too takes two thirds more time.
    """
    first = signature.conditions[0]
    parts = first.of if isinstance(first, AnyOf) else (first,)
    floors = {
        one.metric: (
            one.limits.floor(one.metric, view),
            -inf if one.within_s <= 0 and first.if_missing == "fail" else inf,
        )
        for one in parts
        if isinstance(one, Threshold)
    }
    return floors if first.must_hold and len(floors) == len(parts) else {}


def _with_values(items: list[Item], signature: Signature) -> list[Item]:
    """The spans that have one of the values that the first condition compares; all of them when none has any."""
    first = signature.conditions[0]
    metrics = [one.metric for one in (first.of if isinstance(first, AnyOf) else (first,)) if isinstance(one, Threshold)]
    if not metrics:
        return items
    return [item for item in items if not item.values.keys().isdisjoint(metrics)] or items


def _sample_items(name: str, track: Track, signature: Signature, view: View) -> Judged:
    judged = Judged(total=len(track))
    barren: dict[object, bool] = {}
    floors: dict[object, float] = {}
    every_s, skips = signature.every_s, dict[int, int]()
    floor, _ = _floors(signature, view).get(name, (-inf, inf))
    beats: dict[object, float] = {}
    for index, (key, time, value) in enumerate(zip(track.keys, track.times, track.values, strict=True)):
        if every_s:
            beat = time // every_s
            if beats.get(key) == beat:
                judged.total -= 1
                continue
            beats[key] = beat
        at = judged.stream(key).add(time, time)
        if key[0] not in skips:
            skips[key[0]] = _skipped(signature.skip_first, key[0], view)
        if at + track.earlier.get(key, 0) < skips[key[0]]:
            floors[key] = time
            judged.total -= 1
            continue
        if key not in barren:
            barren[key] = _barren(name, *key, signature, view)
        if value > floor and not barren[key]:
            item = Item(time, time, {name: value}, {}, (track.ref(index),), key[1], "", key[0], None, key, at)
            since = floors.get(key, -inf)
            item.floor = since if since < time else -inf  # without a clock all have one time: none lies behind another
            judged.items.append(item)
    return judged


def _skipped(first: int, source: int, view: View) -> int:
    """Samples of a log that are left out for its first steps: one alone where each is the mean of many steps."""
    if first <= 1:
        return first
    columns = (column for track in view.steps.values() for key, column in track.streams.items() if key[0] == source)
    rises = [after - before for column in columns for before, after in pairwise(column.values[:_LOOKED_AT])]
    rises = [rise for rise in rises if rise > 0]
    return 1 if rises and median(rises) >= _MANY_STEPS else first


def _barren(name: str, source: int, group: str, signature: Signature, view: View) -> bool:
    """None of the samples of a log and group can be an occurrence, by one look at all of them."""
    needed = (condition for condition in signature.conditions if condition.must_hold and condition.if_missing == "fail")
    return any(condition.barren(name, source, group, view) for condition in needed)


def _numbered(items: Iterable[Item]) -> Judged:
    judged = Judged()
    for item in items:
        item.stream = item.source
        item.at = judged.stream(item.stream).add(item.start, item.end)
        judged.items.append(item)
        judged.total += 1
    return judged


def _gap_item(gap: SourceGap) -> Item:
    values = {
        "usual_s": gap.usual_s, "proven_s": inf, "ended": float(gap.ended), "duration_s": gap.end - gap.start,
    }  # fmt: skip
    return Item(gap.start, gap.end, values, {}, (gap.ref,), source=gap.source)


def _stall_item(stall: Stall, view: View) -> Item:
    what = "no log output and no finished step" if stall.silent else "no progress, only heartbeats,"
    values = {
        "usual_s": stall.usual_s, "proven_s": stall.limit_s, "ended": 0.0, "duration_s": stall.end - stall.start,
    }  # fmt: skip
    fields: Fields = {"what": what}
    if stall.silent and view.present is not None and stall.end >= view.whole[1] - 1.0:
        fields["fate"] = "hung or killed"
    hang = view.store.hang
    if hang is not None and view.stalls[-1].end >= view.window[1] - 1.0:  # dumps are of what the run ended in
        fields |= {"behind": rank_words(hang.ranks)} if hang.ranks else {}
        fields["behind_why"] = hang.why
        return Item(stall.start, stall.end, values, fields, (*stall.refs, *hang.refs), source=ALL_LOGS)
    return Item(stall.start, stall.end, values, fields, stall.refs, source=ALL_LOGS)


def _death_items(causes: Sequence[str], view: View) -> list[Item]:
    """The death of the run or of its last start, if it has one of these causes, from the last progress before it."""
    death = view.death or view.failed_start
    if death is None or death.cause.cause not in causes:
        return []
    before = [time for time in view.activity.events if time <= death.time]
    hung = death.cause.cause in WAITED or death.hung_s > 0
    start = before[-1] if before and hung else death.time
    cause = death.cause
    refs = [(Ref(cause.source, cause.line, cause.offset), cause.text)]
    if death.why and view.store.hang is not None:
        refs += view.store.hang.refs
    refs += [(Ref(one.source, one.line, one.offset), one.text) for one in death.echoes[:_ECHOES]]
    values = {"duration_s": death.time - start, "known": float(death.known)}
    components = view.store.sources[cause.source].components
    component = next(iter(components)) if len(components) == 1 else ""  # of a log of several it may be any
    task = task_of(cause, view)
    if task:
        component = ""  # the log is the driver's, the task another process
    ran = str(death.fields.get("ran_ms", ""))  # where its lines have no time, the log's clock ends long before
    stood_s, ran_s = death.time - start, float(ran) / 1000.0 if ran.isdecimal() else 0.0
    stood = {"stood": format_seconds(stood_s)} if stood_s >= max(1.0, ran_s / 2.0) else {}
    fields = {
        "component": component,
        **stood,
        **task,
        **death.fields,
        "cause": death.named_cause,
        "what": CAUSE_WORDS.get(death.named_cause, ""),
    }
    return [Item(start, death.time, values, fields, refs, source=cause.source, group=str(fields.get("rank", "")))]


# --- absence --------------------------------------------------------------------------------------------------
def _absences(kind: str, view: View) -> list[Item]:
    """Ranges between neighbouring spans of a kind, from the last one to the end, or the whole window.

    For weight updates a log that only marks them counts too. None at all means something only in a run whose trace
    lines would show them: for weight updates, one that reports staleness. Rollouts from new policies prove updates
    without a line; they do not prove checkpoints. The usual interval is that of those before the window, too.
    """
    low, high = view.window
    mark = UPDATED if kind == UPDATE else ""
    marks = view.marks.get(mark, EMPTY)
    within: list[Occasion] = [
        (item.start, item.end, item.refs, str(item.fields.get("url", ""))) for item in view.spans(kind)
    ]
    within += [(time, time, [marks.ref(at)], None) for at, time in enumerate(marks.times)]
    recent = _events(within)
    events = [*_events(_earlier(kind, mark, view)), *recent]
    if not recent and len(events) < 3:
        shown = kind == UPDATE and "staleness" in view.metrics
        whole = shown and high > low and not _policy_advances(low, high, view, _KNOWN_POLICIES)
        values = {"usual_s": 0.0, "none": 1.0, "duration_s": high - low}
        return [Item(low, high, values, {}, _lines_between(low, high, view))] if whole else []
    starts = [start for start, _ in events]
    between = [b - a for a, b in pairwise(starts)]
    if len(between) < 2:
        return []
    usual = max(median(between), _of_one_log(events))
    edges = [*zip(events, starts[1:], strict=False), (events[-1], min(high, _reported_until(events, view)))]
    return [
        Item(
            start, end, {"usual_s": usual, "none": 0.0, "duration_s": end - start}, {},
            (*refs, *_lines_between(start, end, view)),
        )
        for (start, refs), end in edges
        if end - start > usual
        and end > low
        and not (kind == UPDATE and _policy_advances((start + end) / 2, end, view))  # at first come those on their way
        and not any(start <= low and high <= end for low, high in view.apart)
    ]  # fmt: skip


def _of_one_log(events: Sequence[Event]) -> float:
    """The usual interval in the log that has the shortest: client and server may each have a line of one update, some
    seconds apart. 0 where no log has three."""
    starts: dict[int, list[float]] = {}
    for start, refs in events:
        for source in {ref.source for ref, _ in refs}:
            starts.setdefault(source, []).append(start)
    usual = (median([b - a for a, b in pairwise(times)]) for times in starts.values() if len(times) > 2)
    return min(usual, default=0.0)


def _lines_between(start: float, end: float, view: View) -> tuple[tuple[Ref, str], ...]:
    """The first and the last line that shows the run continuing in a range: what is absent has no line itself."""
    track = view.track("staleness")
    first, stop = track.between(start, end)
    return tuple(track.ref(at) for at in dict.fromkeys((first, stop - 1)) if first <= at < stop)


def _policy_advances(start: float, end: float, view: View, known: int = 1) -> bool:
    """Rollouts come from more than `known` policies in a range: the updates happen, their lines are missing."""
    track = view.steps.get(POLICY)
    if track is None:
        return False
    first, stop = track.between(start, end)
    return len(set(track.values[first:stop])) > known


def _reported_until(events: Sequence[Event], view: View) -> float:
    """The end of the logs that reported these events: what comes later they could not report."""
    states = [view.store.sources[source] for source in {ref.source for _, refs in events for ref, _ in refs}]
    return max((view.extent(state)[1] for state in states if state.last is not None), default=inf)


def _events(occasions: Iterable[Occasion]) -> list[Event]:
    """The starts of spans or marks with their lines; several servers' updates, or lines about one, count once.

    A server that is updated once more is: that is the next one, however soon it comes.
    """
    events: list[Event] = []
    until, servers = -inf, set[str]()
    for start, end, refs, server in sorted(occasions, key=_start):
        if start > until and (server in servers or start > until + _SAME_UPDATE_S):
            events.append((start, list(refs)))
            servers.clear()
        if server is not None:
            servers.add(server)
        until = max(until, end)
    return events
