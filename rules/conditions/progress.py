"""Activity during an item: steps, other work, lines of other logs. The whole run: its data, and its death."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from typing import ClassVar

from perfmon.core import Table, counted, format_seconds, format_share, median

from ..activity import LEAST_STALL_S, activity_of
from ..death_of_run import over_at
from .base import Amount, Column, Explained, Item, Level, Metric, Names, Single, Track, View
from .trends import step_at

ALL_LOGS = -1
_NO_PROOF = ("-wait", "-step")
"""Suffixes of kinds of spans that prove no work: a wait is none, and a step lasts as long as its cause of delay."""
_SOME = 0.005
"""A smaller share reads as 0 %."""
_REMEMBERED = 64
"""Samples of steps that are looked back on."""
_OFTEN = 2
_FEW_LINES = 20
"""Lines that each try may print."""


@dataclass(frozen=True)
class GoingOn(Explained):
    """At least `least` steps, checkpoint writes or rollouts happened during it.

    Where a log in the folder of the item's own has steps, those of other folders are another run's.
    """

    least: int = 1

    def _met(self, item: Item, view: View) -> tuple[Level, str]:
        folders = frozenset(_folder(ref.source, view) for ref, _ in item.refs)
        own = view.once((GoingOn, folders), lambda: _with_steps(folders, view))
        ended = (s for s in view.spans("checkpoint-write") if item.start <= s.end <= item.end)
        writes = [s for s in ended if not own or _folder(s.source, view) in folders]
        steps = 0
        for track in view.steps.values():
            first, stop = track.between(item.start, item.end)
            numbers = {track.values[at] for at in range(first, stop) if not own or track.source(at) in own}
            steps = max(steps, len(numbers))
        level = Level.CRITICAL if max(len(writes), steps) >= self.least else Level.NO
        return level, f"{counted(len(writes), 'checkpoint')} written and {counted(steps, 'step')} during it"

    def explain(self) -> str:
        return f"at least {self.least} steps or checkpoint writes during it"


def _folder(source: int, view: View) -> str:
    """Of the log, "" where it has none."""
    return view.store.sources[source].spec.rpartition("/")[0] if source >= 0 else ""


def _with_steps(folders: Container[str], view: View) -> frozenset[int]:
    """The logs in these folders that have steps."""
    sources = {source for track in view.steps.values() for source, _ in set(track.keys)}
    return frozenset(source for source in sources if _folder(source, view) in folders)


@dataclass(frozen=True)
class NoReportedWork(Explained):
    """No span covers more than half of it: work of the log itself, or of any log where all are silent."""

    def _met(self, item: Item, view: View) -> tuple[Level, str]:
        covered = 0.0
        for kind in view.span_kinds:
            if item.source == ALL_LOGS and kind.endswith(_NO_PROOF):
                continue
            for span in view.overlapping(kind, item.start, item.end):
                if item.source in (span.source, ALL_LOGS):
                    covered = max(covered, min(span.end, item.end) - max(span.start, item.start))
        share = covered / max(item.end - item.start, 1e-9)
        words = (
            "no line reports work of that time"
            if share < _SOME
            else f"reported work covers {format_share(share)} of it"
        )
        return Level.NO if share > 0.5 else Level.CRITICAL, words

    def explain(self) -> str:
        return "no logged work covers it"


@dataclass(frozen=True)
class OtherLogs(Explained):
    """Another log covers most of it, without a silence half as long."""

    def _met(self, item: Item, view: View) -> tuple[Level, str]:
        length = item.end - item.start
        for state in view.store.sources:
            if state.index == item.source or state.first is None or state.last is None or state.polled:
                continue
            shift = view.shift(state.index)
            covered = min(state.last + shift, item.end) - max(state.first + shift, item.start)
            silences = (min(g.end + shift, item.end) - max(g.start + shift, item.start) for g in state.gaps)
            if covered > 0.5 * length and max(silences, default=0.0) < 0.5 * length:
                return Level.CRITICAL, f"{state.spec} continues"
        return Level.NO, "no other log continues"

    def explain(self) -> str:
        return "other logs continue"


@dataclass(frozen=True)
class BusyLog(Explained):
    """The log printed at least `least` lines, and silence is not its way of being idle."""

    least: int = 1

    def _met(self, item: Item, view: View) -> tuple[Level, str]:
        state = view.store.sources[item.source]
        if state.idle_silence:
            return Level.NO, "it is silent when idle"
        level = Level.CRITICAL if state.lines >= self.least else Level.NO
        return level, f"{state.lines} lines before"

    def explain(self) -> str:
        return f"the log printed {self.least} lines or more and is not one that is silent when idle"


@dataclass(frozen=True)
class StepsGoOn(Single):
    """Some component made its first step `since_s` ago or earlier, `least` in all, the last no longer ago than `factor`
    usual intervals, without a pause in between, as for an evaluation.

    Of a run without steps: all samples of the metric `busy` (requests that run in an engine) of the last `since_s`
    seconds are above zero, and there were some before.
    """

    least: int = 5
    factor: float = 3.0
    since_s: float = 60.0
    busy: Metric = ""

    def judge(self, item: Item, view: View) -> Level:
        """Unknown without steps or requests."""
        if any(len(track) for track in view.steps.values()):
            return Level.CRITICAL if self._usual(item, view) is not None else Level.NO
        track = view.track(self.busy)
        first, stop = track.between(item.end - self.since_s, item.end)
        if stop - first < _OFTEN:
            return Level.UNKNOWN
        if not first:
            return Level.NO
        return Level.CRITICAL if min(track.values[first:stop]) > 0 else Level.NO

    def _usual(self, item: Item, view: View) -> float | None:
        """The interval of the steps that continue; None where none do."""
        for component, track in view.steps.items():
            if not len(track) or track.times[0] > item.end - self.since_s:
                continue
            stop = bisect_right(track.times, item.end)
            last, usual = view.once((type(self), self.least, component, stop), partial(self._intervals, track, stop))
            if item.end - last <= self.factor * usual and not self._paused(track, item.end, usual):
                return usual
        return None

    def _paused(self, track: Track, end: float, usual: float) -> bool:
        """True where no step came for long within the last `since_s` seconds."""
        first, stop = track.between(end - self.since_s, end)
        times, least = track.times[max(0, first - 1) : stop], max(LEAST_STALL_S, self.factor * usual)
        return any(after - before > least for before, after in pairwise(times))

    def _intervals(self, track: Track, stop: int) -> tuple[float, float]:
        """(when the last step came, the usual interval): of several ranks that report a step the first counts."""
        began: dict[float, float] = {}
        for at in range(max(0, stop - _REMEMBERED), stop):
            began.setdefault(track.values[at], track.times[at])
        times = sorted(began.values())
        if len(times) < max(2, self.least):
            return float("-inf"), 0.0
        return times[-1], median([after - before for before, after in pairwise(times)])

    def describe(self, item: Item, view: View) -> str:
        usual = self._usual(item, view)
        if usual is not None:
            return f"a step every {format_seconds(usual)}"
        return f"{self.busy} all the time" if self.judge(item, view).holds else "no steps during it"

    def explain(self) -> str:
        busy = f", or {self.busy} above 0 all the time in a run without steps" if self.busy else ""
        since = f"for {self.since_s:g} s, at least {self.least}, the last within {self.factor:g} usual intervals"
        return f"steps continue: {since}, without a pause{busy}"


@dataclass(frozen=True)
class Ceased(Explained):
    """`metric` (a rate) was last above 0 at least `least_s` before the item, and longer ago than ever between two times
    before: than `factor` times the longest of these pauses.

    Of the item's group, with `everywhere` of all groups. No sample is as good as one that is 0: what is dead reports
    nothing. Unknown where it was never above 0.
    """

    costly: ClassVar[bool] = True
    metric: Metric
    least_s: Amount = 30.0
    factor: float = 1.5
    everywhere: bool = False

    def _met(self, item: Item, view: View) -> tuple[Level, str]:
        times, longest = self._activity(item, view)
        at = bisect_right(times, item.end) - 1
        if at < 0:
            return Level.UNKNOWN, f"{self.metric} not observed"
        idle_s = item.end - times[at]
        level = Level.CRITICAL if idle_s >= max(self.least_s, self.factor * longest[at]) else Level.NO
        return level, f"{self.metric} 0 for {format_seconds(idle_s)}, before for at most {format_seconds(longest[at])}"

    def since(self, item: Item, view: View) -> float | None:
        """The last time that it was above 0."""
        times, _ = self._activity(item, view)
        at = bisect_right(times, item.end) - 1
        return times[at] if at >= 0 else None

    def _activity(self, item: Item, view: View) -> tuple[list[float], list[float]]:
        group = "" if self.everywhere else item.group
        return view.once((self, group), lambda: self._active(view.track(self.metric).column(group)))

    @staticmethod
    def _active(column: Column) -> tuple[list[float], list[float]]:
        """Times at which it was above 0, and the longest pause up to then."""
        times = [time for time, value in zip(column.times, column.values, strict=True) if value > 0]
        pauses = [0.0, *(after - before for before, after in pairwise(times))]
        return times, list(accumulate(pauses, max))

    def explain(self) -> str:
        return f"{self.metric} is 0 for {self.least_s:g} s, and {self.factor:g} times as long as ever before"


@dataclass(frozen=True)
class InVain(Single):
    """The item is one of the marks `metric` with which its log ends: none of its work, and no work of another log, has
    come since the first of them.

    There are `least` or more of them, over `least_s` seconds; in a log without a clock `least_untimed`.
    """

    metric: Metric
    least: int = 10
    least_s: Amount = 600.0
    least_untimed: int = 50

    def _since(self, item: Item, view: View) -> tuple[int, int, float]:
        return view.once((self, item.source), lambda: self._tail(item.source, view))

    def _tail(self, source: int, view: View) -> tuple[int, int, float]:
        """The line of the first mark without work after it, how many there are, and seconds from the first to the
        last; 0 marks where they are not in vain."""
        marks, state = view.marks.get(self.metric), view.store.sources[source]
        worked = max((track.last_line for track in view.store.progress.of(source)), default=0)
        own = [] if marks is None else [at for at in range(len(marks)) if marks.ref(at)[0].source == source]
        own = [at for at in own if marks is not None and marks.ref(at)[0].line > worked]
        if marks is None or not own or view.fact(over_at) is not None:
            return 0, 0, 0.0
        first, last = own[0], own[-1]
        count, lasted = round(sum(marks.values[at] for at in own)), marks.times[last] - marks.times[first]
        enough = count >= self.least_untimed if state.clockless else count >= self.least and lasted >= self.least_s
        if not enough or state.lines - marks.ref(last)[0].line > _FEW_LINES:
            return 0, 0, 0.0
        others = (track for track in view.fact(activity_of).tracks if track.source != source)
        if any(time > marks.times[first] for track in others for time in track.times[-1:]):
            return 0, 0, 0.0
        return marks.ref(first)[0].line, count, lasted

    def barren(self, name: str, source: int, group: str, view: View) -> bool:
        """It is another mark, or none came."""
        return name != self.metric or name not in view.marks

    def judge(self, item: Item, view: View) -> Level:
        """A warning: what is waited for may come."""
        if self.metric not in item.values:
            return Level.UNKNOWN
        line, count, _ = self._since(item, view)
        return Level.WARNING if count and item.refs[0][0].line >= line else Level.NO

    def describe(self, item: Item, view: View) -> str:
        _, count, lasted = self._since(item, view)
        return f"{count} times" + (f" in {format_seconds(lasted)}" if lasted else "") + ", and no work since the first"

    def explain(self) -> str:
        return f"{self.least} or more in {self.least_s:g} s or longer at the end, and no work since the first"


WHAT: Mapping[str, type[Single]] = {
    "ceased": Ceased,
    "in-vain": InVain,
    "steps": StepsGoOn,
    "work": GoingOn,
    "no-reported-work": NoReportedWork,
    "other-logs": OtherLogs,
    "busy-log": BusyLog,
}
"""By the activity."""


# --- The whole run: the data that it has, and its death ---

_PERHAPS_BY_PEOPLE = ("interrupted", "cancelled", "ended-at-work")
"""A healthy run that was, or may have been, stopped: worth a warning."""


@dataclass(frozen=True)
class Has(Single):
    """Some log of the run logs one of the spans, metrics or marks `names`; with `none` no log does."""

    names: Names
    none: bool = False

    def judge(self, item: Item, view: View) -> Level:
        """Of the whole run, whatever part of it is looked at."""
        found = view.once((self,), lambda: view.has_any(self.names))
        return Level.CRITICAL if found is not self.none else Level.NO

    def describe(self, item: Item, view: View) -> str:
        found = [name for name in self.names if view.has_any((name,))]
        return f"logs {', '.join(found)}" if found else f"logs no {' or '.join(self.names[:3])}"

    def explain(self) -> str:
        return f"the run logs {'no' if self.none else 'a'} {' or '.join(self.names)}"


@dataclass(frozen=True)
class DiedOf(Single):
    """The item is the failure that the run died of: `ended`: nothing continued after it; `first`: it is no echo."""

    what: str = "ended"

    def check(self, table: Table) -> None:
        """One of the two."""
        if self.what not in ("ended", "first"):
            raise table.wrong("what", "expected ended or first")

    def judge(self, item: Item, view: View) -> Level:
        """By the death that the item is."""
        if self.what == "ended":
            stopped = item.fields.get("cause") in _PERHAPS_BY_PEOPLE and "hung" not in item.fields
            return Level.WARNING if stopped else Level.CRITICAL
        return Level.CRITICAL if item.values.get("known") else Level.NO

    def describe(self, item: Item, view: View) -> str:
        if self.what == "ended":
            step = step_at(item.end, view)
            return f"the run makes no progress after step {step}" if step else "the run makes no progress after it"
        if not item.values.get("known"):
            return "only an echo of it is in these logs"
        echoes = str(item.fields.get("echoes", ""))
        if echoes:
            return f"{counted(int(echoes), 'later failure line')} {'echoes' if echoes == '1' else 'echo'} it"
        return "no other failure in this run" if view.boundaries else "no other failure in these logs"

    def explain(self) -> str:
        return "the run does not continue after it" if self.what == "ended" else "it is the first cause"
