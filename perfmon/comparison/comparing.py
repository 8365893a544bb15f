"""The comparison as a whole, and its one verdict."""

from __future__ import annotations

from collections.abc import Sequence, Set

from perfmon.core import REST, counted, format_fine, format_seconds, format_share, plain
from perfmon.diagnosis import Diagnosis

from .changes import FEWEST, LOST, finding_changes, lost_change, lost_shares, metric_changes, problem, weighty
from .model import (
    Comparison,
    Criterion,
    CriterionResult,
    FindingChange,
    LostShare,
    MetricChange,
    Outcome,
    Run,
    Shift,
    Stages,
)

_NAMED = 3
_SHOWN_NOTES, _LONGEST = 8, 160
_LIKE_LENGTHS = 3.0
"""Runs are of like length up to so many times the shorter one."""
_LIKE_TOTALS, _LIKE_LOSSES = 1.05, 1.5
_ONE_EVENT = "but no metric changed significantly: a single incident can do this; repeat the run"


def compare(before: Run, after: Run, criteria: Sequence[Criterion]) -> Comparison:
    """Both runs side by side. The same runs give the same comparison, and exchanged ones its mirror image."""
    metrics, findings = metric_changes(before, after), finding_changes(before, after)
    lost = lost_shares(before.snapshot, after.snapshot)
    by_name = {change.name: change for change in metrics}
    results = tuple(criterion.judge(by_name, after.bands) for criterion in criteria)
    moved = lost_change(before.snapshot, after.snapshot)
    weighed = _Weighed(
        before.snapshot, after.snapshot, metrics, findings, lost, moved, results, after.bands.loads, after.stages
    )
    verdict = weighed.verdict()
    return Comparison(
        before=before.snapshot,
        after=after.snapshot,
        metrics=metrics,
        findings=findings,
        lost=lost,
        lost_change=moved,
        criteria=results,
        verdict=verdict,
        sentence=weighed.sentence(verdict),
        notes=_notes(before, after, findings) + _one_sided(metrics) + weighed.doubts(verdict),
    )


class _Weighed:
    """Reasons for the run after and against it."""

    def __init__(
        self,
        before: Diagnosis,
        after: Diagnosis,
        metrics: Sequence[MetricChange],
        findings: Sequence[FindingChange],
        lost: Sequence[LostShare],
        moved: Shift,
        criteria: Sequence[CriterionResult],
        loads: Set[str] = frozenset(),
        stages: Stages | None = None,
    ) -> None:
        self._stages, self._metrics = stages, metrics
        self._before, self._after, self._criteria = before, after, criteria
        self._findings = findings
        self._unlike, self._other = _unlike_lengths(before, after), other_job(before, after)
        self._judged = [change for change in metrics if change.verdict is not None and not change.group]
        counted = sorted((change for change in self._judged if change.counts), key=_limits_first)
        self._better = [change for change in counted if change.verdict == "better"]
        self._worse = [change for change in counted if change.verdict == "worse"]
        serious = [c for c in findings if problem(c) and c.proven and weighty(c, before, after)]
        worst = [(c.before.severity.rank, c.after.severity.rank) for c in serious if c.before and c.after]
        self._milder, self._graver = any(a > b for a, b in worst), any(a < b for a, b in worst)
        causes = [entry for entry in lost if entry.cause not in REST]
        self._lost = (sum(entry.before for entry in causes), sum(entry.after for entry in causes))
        self._less = moved.beyond_chance and self._lost[0] - self._lost[1] >= LOST
        self._more = moved.beyond_chance and self._lost[1] - self._lost[0] >= LOST
        self._gone = [c for c in serious if c.kind == "gone" and (self._less or not c.rare)]
        self._new = [c for c in serious if c.kind == "new" and (self._more or not c.rare)]
        self._rare = [c for c in serious if c.rare and c not in (*self._gone, *self._new)]
        # Of a shorter step the same time is a larger share: whether a step is shorter decides.
        whole = {change.verdict for change in counted if stages is not None and change.name == stages.whole}
        if "better" in whole:
            self._new, self._more, self._graver = [], False, False
        elif "worse" in whole:
            self._gone, self._less, self._milder = [], False, False
        # How loaded the hosts are decides only where nothing else does.
        of_run = [change for change in (*self._better, *self._worse) if change.name not in loads]
        if of_run or self._gone or self._new or self._less or self._more or self._milder or self._graver:
            self._better = [change for change in self._better if change.name not in loads]
            self._worse = [change for change in self._worse if change.name not in loads]
        self._good = bool(self._better or self._gone or self._less or self._milder)
        self._bad = bool(self._worse or self._new or self._more or self._graver)
        shown = {1: self._bad, -1: self._good}
        self.open = [c for c in findings if problem(c) and c.spread and c not in serious and not shown[c.spread]]
        """Cheap, but in much more or fewer of what was observed, while no figure moved that way beyond chance."""

    def verdict(self) -> Outcome:
        """Return the verdict."""
        good, bad = self._good, self._bad
        if self._other or not self._enough():
            return "cannot tell"
        if self._fixed_by_change() and not bad and all(result.ok is not False for result in self._criteria):
            return "fixed"
        if good and bad:
            return "mixed"
        doubtful = self._rare or self.open or self._unlike
        return "improved" if good else "regressed" if bad else "cannot tell" if doubtful else "unchanged"

    def _fixed_by_change(self) -> bool:
        """The run before had a bottleneck, the run after has none, and that is no chance."""
        had = self._before.verdict
        return (
            had is not None and self._after.verdict is None and had.signature not in {c.signature for c in self._rare}
        )

    def _enough(self) -> bool:
        """Something can be judged at all, and what either verdict is about was seen in the other run too."""
        named = {verdict.signature for verdict in (self._before.verdict, self._after.verdict) if verdict is not None}
        unproven = any(change.signature in named and not change.proven for change in self._findings)
        return not unproven and bool(self._judged or self._gone or self._new)

    def doubts(self, verdict: Outcome) -> tuple[str, ...]:
        """Changes that the verdict leaves open."""
        return (
            ()
            if verdict == "cannot tell"
            else tuple(f"{c.signature}: {c.occurrences}; {_ONE_EVENT}" for c in self.open)
        )

    # --- in words -------------------------------------------------------------------------------------------------
    def sentence(self, verdict: Outcome) -> str:
        """The verdict with its reasons."""
        reason = {
            "fixed": self._fixed,
            "improved": lambda: self._reasons(self._for()),
            "unchanged": lambda: "No significant difference that is large enough to matter",
            "regressed": lambda: self._reasons(self._against()),
            "mixed": lambda: f"{self._reasons(self._for())}; but {self._reasons(self._against())}",
            "cannot tell": self._cannot_tell,
        }[verdict]()
        return "; ".join(part for part in (reason, self._criteria_text()) if part) + "."

    def _criteria_text(self) -> str:
        judged = [result for result in self._criteria if result.ok is not None]
        failed = sum(not result.ok for result in judged)
        whole = "" if len(judged) == len(self._criteria) else " that could be judged"
        if not judged:
            return ""
        if failed:
            return f"{failed} of {counted(len(judged), 'criterion', 'criteria')}{whole} not met"
        return f"all criteria{whole} hold"

    def _fixed(self) -> str:
        cause = self._before.verdict
        assert cause is not None  # noqa: S101 - something was fixed
        cost = f" ({format_share(cause.lost_share)} of the time lost before)" if cause.lost_s else ""
        figures = [self._in_words(change) for change in self._better[:_NAMED]]
        return "; ".join([f"{cause.title} is gone{cost}", *([", ".join(figures)] if figures else [])])

    def _for(self) -> list[str]:
        return self._side(self._gone, "gone", "less" if self._milder else "", self._less, self._better)

    def _against(self) -> list[str]:
        return self._side(self._new, "new", "more" if self._graver else "", self._more, self._worse)

    def _side(
        self, findings: Sequence[FindingChange], word: str, severe: str, lost: bool, metrics: Sequence[MetricChange]
    ) -> list[str]:
        """The reasons of one side: findings, severity, lost time, metrics."""
        named = {change.signature for change in findings}
        causes = [change for change in findings if _cause(change) not in named]
        return [
            *(f"{change.title} is {word}{_stated(change) if not at else ''}" for at, change in enumerate(causes)),
            *([f"a finding is {severe} severe"] if severe else []),
            *([f"time lost {' → '.join(map(format_share, self._lost))}"] if lost else []),
            *map(self._in_words, metrics),
        ]

    def _in_words(self, change: MetricChange) -> str:
        """A metric that moved; of one that has parts those that moved with it, the largest change first."""
        stages = self._stages
        if stages is None or change.name not in (stages.whole, *stages.parts):
            return _figures(change)
        if change.name != stages.whole:
            return f"{stages.parts[change.name]} {_means(change)} of {stages.words}"
        moved = [one for one in self._metrics if one.name in stages.parts and one.verdict in ("better", "worse")]
        moved.sort(key=lambda one: -abs(one.shifts["mean"].change))
        parts = [f"{stages.parts[one.name]} {_means(one)}" for one in moved[:_NAMED]]
        return f"{stages.words} {_means(change)}{': ' if parts else ''}{', '.join(parts)}"

    @staticmethod
    def _reasons(reasons: Sequence[str]) -> str:
        more = len(reasons) - 2 * _NAMED
        return ", ".join(reasons[: 2 * _NAMED]) + (f" and {more} more" if more > 0 else "")

    def _cannot_tell(self) -> str:
        if self._other:
            return f"These are different jobs ({self._other}): what differs is no effect of a change"
        for change in self._findings:
            if not change.proven:
                return f"{change.title}: {change.doubt}"
        for change in self._rare:
            return f"{change.title}: {change.doubt}"
        for change in self.open:
            return f"{change.title}: {change.occurrences}; {_ONE_EVENT}"
        if self._unlike and self._judged:
            shown = "No significant difference in the data of both runs"
            return f"{shown}, but {self._unlike}: the later part exists in one run only"
        return "No metric with a better direction has enough samples in both runs"


def other_job(before: Diagnosis, after: Diagnosis) -> str:
    """Signs that the runs are not the same job, "" where at most one is there: a job may get other lines, other limits
    or another loss from one change. None of their formats is the same; their numbers of steps are; or all losses of the
    one are far from the usual one of the other."""
    signs = []
    early, late = ({one for source in run.run.sources for one in source.format.split("+")} for run in (before, after))
    early, late = early - {"unknown"}, late - {"unknown"}
    if early and late and not early & late:
        signs.append(f"formats {_formats(early)} and {_formats(late)}")
    totals = [run.run.goal.total for run in (before, after) if run.run.goal is not None and run.run.goal.total]
    if len(totals) == len((before, after)) and max(totals) > _LIKE_TOTALS * min(totals):
        signs.append(f"{totals[0]:,.0f} and {totals[1]:,.0f} steps in all")
    losses = [run.metrics["loss"].summary for run in (before, after) if "loss" in run.metrics]
    if len(losses) == len((before, after)):
        low, high = sorted(losses, key=lambda loss: loss.p50)
        if low.p50 > 0 and high.p50 > _LIKE_LOSSES * low.p50 and high.min > low.p50 and low.p95 < high.p50:
            signs.append(f"a loss of {losses[0].p50:.3g} and of {losses[1].p50:.3g}")
    return "; ".join(signs) if len(signs) > 1 else ""


def _formats(names: Set[str]) -> str:
    return "+".join(sorted(names)[:2])


def _limits_first(change: MetricChange) -> tuple[bool, str]:
    """Sort key: metrics with thresholds first."""
    return (change.before is None or change.before.band is None, change.name)


def _stated(change: FindingChange) -> str:
    """The subject of a new finding in brackets: the queue, the source, the figures."""
    side = change.after
    if side is None or change.before is not None or not side.sentence:
        return ""
    return f" ({plain(side.sentence, _LONGEST).rstrip('.')})"


def _cause(change: FindingChange) -> str | None:
    side = change.after or change.before
    return side.explained_by if side is not None else None


def _figures(change: MetricChange) -> str:
    statistic = change.why if change.why in change.shifts else "mean"
    return f"{change.name} {statistic} {_means(change, statistic)}"


def _means(change: MetricChange, statistic: str = "mean") -> str:
    assert change.before is not None  # noqa: S101 - it was judged
    assert change.after is not None  # noqa: S101
    values = (getattr(side.summary, statistic) for side in (change.before, change.after))
    return " → ".join(format_fine(value, change.unit) for value in values)


def _unlike_lengths(before: Diagnosis, after: Diagnosis) -> str:
    """The length of both runs, if one is much longer: it may have phases that the other never reached."""
    early, late = before.run.wall_s, after.run.wall_s
    if min(early, late) <= 0 or max(early, late) <= _LIKE_LENGTHS * min(early, late):
        return ""
    return f"{format_seconds(early)} were observed before and {format_seconds(late)} after"


def _notes(before: Run, after: Run, findings: Sequence[FindingChange]) -> tuple[str, ...]:
    notes = []
    if _unlike_lengths(before.snapshot, after.snapshot):
        shorter = min(before.snapshot.run.wall_s, after.snapshot.run.wall_s)
        notes.append(
            "one run is more than three times as long as the other: compare equal durations "
            f"(--first {max(1.0, shorter):.0f}s)"
        )
    for name, run in (("before", before), ("after", after)):
        if run.snapshot.dropped:
            notes.append(
                f"samples of the run {name} were thinned to save memory: its statistics lean towards large values"
            )
        if not any(source.events for source in run.snapshot.run.sources):
            notes.append(f"no line of the run {name} was recognised (perfmon analyze SOURCE --explain-formats)")
    notes += [f"{change.signature}: {change.doubt}" for change in findings if not change.proven]
    return (*notes, *_of_logs("before", before.snapshot), *_of_logs("after", after.snapshot))


def _of_logs(name: str, run: Diagnosis) -> list[str]:
    """Notes about the logs of a run: lost data is in no figure."""
    notes = [
        f"{name}: {plain(source.spec, 200)}: {plain(note.removeprefix(f'{source.spec}: '), 300)}"
        for source in run.run.sources
        for note in source.notes
    ]
    more = len(notes) - _SHOWN_NOTES
    return [*notes[:_SHOWN_NOTES], f"{name}: {counted(more, 'more note')} (perfmon analyze)"] if more > 0 else notes


def _one_sided(metrics: Sequence[MetricChange]) -> tuple[str, ...]:
    """Metrics that only one run logs: nothing can be stated about their change."""
    notes = []
    for run in ("before", "after"):
        pooled = {change.name for change in metrics}
        alone = [
            f"{change.name} (mean {_mean(change)})"
            for change in metrics
            if change.better
            and (not change.group or change.name.partition("{")[0] not in pooled)
            and _only(change, run)
        ]  # fmt: skip
        if alone:
            more = f" and {len(alone) - _SHOWN_NOTES} more" if len(alone) > _SHOWN_NOTES else ""
            notes.append(f"only in the run {run}, not compared: {', '.join(alone[:_SHOWN_NOTES])}{more}")
    return tuple(notes)


def _mean(change: MetricChange) -> str:
    side = change.before or change.after
    return "" if side is None else format_fine(side.summary.mean, change.unit)


def _only(change: MetricChange, run: str) -> bool:
    here, there = (change.before, change.after) if run == "before" else (change.after, change.before)
    return there is None and here is not None and here.summary.count >= FEWEST
