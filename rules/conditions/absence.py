"""Things that should have gone on during the item did, or did not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from perfmon.datafile import Table
from perfmon.stats import median
from perfmon.units import format_seconds

from .base import Condition, Level

if TYPE_CHECKING:
    from ..view import Item, View

_WHAT = ("step", "usual", "going-on", "spans", "lines", "busy-log")


@dataclass(frozen=True)
class Missed(Condition):
    """Judges a stretch of time by what happened in it.

    `what`: `step` no step for more than `factor` median steps; `usual` longer than `factor` times what is usual for the
    log (or for the spans that are absent) and than `least_s`; `going-on` at least `least` steps, checkpoint writes or
    rollouts happened meanwhile; `spans` no reported span covers it; `lines` other logs printed lines meanwhile;
    `busy-log` the log printed at least `least` lines and silence is not its way of being idle.
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
            "going-on": self._going_on,
            "spans": self._uncovered,
            "lines": self._others_print,
            "busy-log": self._busy_log,
        }
        return judges[self.what](item, view)

    def _no_step(self, item: Item, view: View) -> tuple[Level, str]:
        intervals: list[float] = []
        for track in view.steps.values():
            first, stop = track.between(item.start + 1e-9, item.end - 1e-9)
            if stop > first:
                return Level.NO, "steps go on"
            times = sorted(set(track.times))
            intervals += [b - a for a, b in zip(times, times[1:], strict=False)]
        if len(intervals) < 2:
            return Level.UNKNOWN, "no steps told"
        usual = median(intervals)
        length = item.end - item.start
        level = Level.CRITICAL if length > self.factor * usual else Level.NO
        return level, f"no step for {format_seconds(length)}, the usual step takes {format_seconds(usual)}"

    def _longer_than_usual(self, item: Item, view: View) -> tuple[Level, str]:
        length, usual = item.end - item.start, item.values.get("usual_s", 0.0)
        level = Level.CRITICAL if length > max(self.factor * usual, self.least_s) else Level.NO
        return level, f"nothing for {format_seconds(length)}, usual {format_seconds(usual)}"

    def _going_on(self, item: Item, view: View) -> tuple[Level, str]:
        writes = [s for s in view.spans("checkpoint-write") if item.start <= s.end <= item.end]
        steps = 0
        for track in view.steps.values():
            first, stop = track.between(item.start, item.end)
            steps = max(steps, len(set(track.values[first:stop])))
        if view.overlapping("weight-sync", item.start, item.end):
            return Level.NO, "weights were synchronised meanwhile"
        level = Level.CRITICAL if max(len(writes), steps) >= self.least else Level.NO
        return level, f"{len(writes)} checkpoints written and {steps} steps meanwhile"

    def _uncovered(self, item: Item, view: View) -> tuple[Level, str]:
        covered = 0.0
        for kind in view.span_kinds:
            for span in view.overlapping(kind, item.start, item.end):
                covered = max(covered, min(span.end, item.end) - max(span.start, item.start))
        share = covered / max(item.end - item.start, 1e-9)
        return Level.NO if share > 0.5 else Level.CRITICAL, f"reported work covers {share:.0%} of it"

    def _others_print(self, item: Item, view: View) -> tuple[Level, str]:
        others = [s for s in view.store.sources if s.index != item.source and s.last is not None]
        for state in others:
            shift = view.shifts.get(state.index, 0.0)
            start, end = (state.first or 0.0) + shift, (state.last or 0.0) + shift
            quiet = sum(
                max(0.0, min(gap.end + shift, item.end) - max(gap.start + shift, item.start)) for gap in state.gaps
            )
            heard = max(0.0, min(end, item.end) - max(start, item.start)) - quiet
            if heard > 0.5 * (item.end - item.start):
                return Level.CRITICAL, f"{state.spec} goes on"
        return Level.NO, "no other log goes on"

    def _busy_log(self, item: Item, view: View) -> tuple[Level, str]:
        state = view.store.sources[item.source]
        level = Level.CRITICAL if state.lines >= self.least and not state.idle_silence else Level.NO
        return level, f"{state.lines} lines before"

    def explain(self) -> str:
        """In words."""
        return {
            "step": f"no step for more than {self.factor:g} median steps",
            "usual": f"longer than {self.factor:g}x what is usual and than {self.least_s:g} s",
            "going-on": f"at least {self.least} steps or checkpoint writes meanwhile",
            "spans": "no reported work covers it",
            "lines": "other logs go on",
            "busy-log": f"the log printed {self.least} lines or more and is not one that is silent when idle",
        }[self.what]
