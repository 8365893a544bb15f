"""Things that should have gone on during the item did, or did not."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, ClassVar, Self

from perfmon.datafile import Table
from perfmon.stats import median
from perfmon.units import format_seconds

from ..wording import counted, format_share
from .base import Condition, Level

if TYPE_CHECKING:
    from ..items import Item
    from ..view import View

ALL_LOGS = -1
_EDGE_S = 1e-3
"""The lines before and after a silence are no part of it; times of day have no more digits than this."""
_NO_PROOF = ("-wait", "-step")
"""How kinds of spans end that prove no work: a wait is none, and a step takes as long as what holds it up."""
_WHAT = ("step", "usual", "rhythm", "going-on", "spans", "lines", "busy-log")


@dataclass(frozen=True)
class Missed(Condition):
    """Judges a stretch of time by what happened in it.

    `what`: `step` no step for more than `factor` median steps; `usual` longer than `factor` times what is usual for the
    log (or for the spans that are absent) and than `least_s`; `rhythm` longer than `least_s` and than any pause that
    goes with the run's steps and its logs' lines so far (see `perfmon.rules.rhythm`); `going-on` at least `least`
    steps, checkpoint writes or rollouts happened meanwhile; `spans` no reported span covers it; `lines` other logs
    printed lines meanwhile; `busy-log` the log printed at least `least` lines and silence is not its way of being idle.
    """

    type: ClassVar[str] = "missed"
    keys: ClassVar[tuple[str, ...]] = ("what", "factor", "least_s", "least")
    what: str
    factor: float
    least_s: float
    least: int
    required: bool = True
    optional: bool = False

    @classmethod
    def read(cls, table: Table) -> Self:
        """From its table."""
        what = table.text("what")
        if what not in _WHAT:
            raise table.wrong("what", f"expected one of {', '.join(_WHAT)}")
        return cls(what, table.number("factor", 3.0), table.number("least_s", 0.0), int(table.number("least", 1)))

    def judge(self, item: Item, view: View) -> Level:
        """By `what`."""
        return self._met(item, view)[0]

    def describe(self, item: Item, view: View) -> str:
        """What happened meanwhile."""
        return self._met(item, view)[1]

    def _met(self, item: Item, view: View) -> tuple[Level, str]:
        judges = {
            "step": self._no_step,
            "usual": self._longer_than_usual,
            "rhythm": self._out_of_rhythm,
            "going-on": self._going_on,
            "spans": self._uncovered,
            "lines": self._others_print,
            "busy-log": self._busy_log,
        }
        return judges[self.what](item, view)

    def _no_step(self, item: Item, view: View) -> tuple[Level, str]:
        intervals: list[float] = []
        for track in view.steps.values():
            first, stop = track.between(item.start + _EDGE_S, item.end - _EDGE_S)
            if stop > first:
                return Level.NO, "steps continue"
            times = sorted(set(track.times))
            intervals += [b - a for a, b in pairwise(times)]
        if len(intervals) < 2:
            return Level.UNKNOWN, "no steps logged"
        usual = median(intervals)
        length = item.end - item.start
        level = Level.CRITICAL if length > self.factor * usual else Level.NO
        return level, f"no step for {format_seconds(length)}, the usual step takes {format_seconds(usual)}"

    def _longer_than_usual(self, item: Item, view: View) -> tuple[Level, str]:
        length, usual = item.end - item.start, item.values.get("usual_s", 0.0)
        level = Level.CRITICAL if length > max(self.factor * usual, self.least_s) else Level.NO
        return level, f"no output for {format_seconds(length)}, usually {format_seconds(usual)}"

    def _out_of_rhythm(self, item: Item, view: View) -> tuple[Level, str]:
        length, proven = item.end - item.start, item.values.get("proven_s", inf)
        if proven == inf:
            return Level.NO, "no known interval is exceeded"
        level = Level.CRITICAL if length > max(proven, self.least_s) else Level.NO
        return level, f"the run's usual interval allows {format_seconds(proven)}"

    def _going_on(self, item: Item, view: View) -> tuple[Level, str]:
        writes = [s for s in view.spans("checkpoint-write") if item.start <= s.end <= item.end]
        steps = 0
        for track in view.steps.values():
            first, stop = track.between(item.start, item.end)
            steps = max(steps, len(set(track.values[first:stop])))
        level = Level.CRITICAL if max(len(writes), steps) >= self.least else Level.NO
        return level, f"{counted(len(writes), 'checkpoint')} written and {counted(steps, 'step')} in the meantime"

    def _uncovered(self, item: Item, view: View) -> tuple[Level, str]:
        """By one span: work of the log itself, or of any log where all are silent."""
        covered = 0.0
        for kind in view.span_kinds:
            if item.source == ALL_LOGS and kind.endswith(_NO_PROOF):
                continue
            for span in view.overlapping(kind, item.start, item.end):
                if item.source in (span.source, ALL_LOGS):
                    covered = max(covered, min(span.end, item.end) - max(span.start, item.start))
        share = covered / max(item.end - item.start, 1e-9)
        return Level.NO if share > 0.5 else Level.CRITICAL, f"reported work covers {format_share(share)} of it"

    def _others_print(self, item: Item, view: View) -> tuple[Level, str]:
        """Another log covers most of it, without a silence half as long."""
        length = item.end - item.start
        for state in view.store.sources:
            if state.index == item.source or state.first is None or state.last is None or state.polled:
                continue
            shift = view.shifts.get(state.index, 0.0)
            covered = min(state.last + shift, item.end) - max(state.first + shift, item.start)
            silences = (min(g.end + shift, item.end) - max(g.start + shift, item.start) for g in state.gaps)
            if covered > 0.5 * length and max(silences, default=0.0) < 0.5 * length:
                return Level.CRITICAL, f"{state.spec} continues"
        return Level.NO, "no other log continues"

    def _busy_log(self, item: Item, view: View) -> tuple[Level, str]:
        state = view.store.sources[item.source]
        if state.idle_silence:
            return Level.NO, "it prints nothing when idle"
        level = Level.CRITICAL if state.lines >= self.least else Level.NO
        return level, f"{state.lines} lines before"

    def explain(self) -> str:
        """In words."""
        return {
            "step": f"no step for more than {self.factor:g} median steps",
            "usual": f"longer than {self.factor:g}x the usual interval and than {self.least_s:g} s",
            "rhythm": f"longer than {self.least_s:g} s and than the usual interval of the run allows",
            "going-on": f"at least {self.least} steps or checkpoint writes in the meantime",
            "spans": "no reported work covers it",
            "lines": "other logs continue",
            "busy-log": f"the log printed {self.least} lines or more and is not one that prints nothing when idle",
        }[self.what]
