"""Two runs side by side, as plain text of 80 columns, as Markdown, and as the `--json` document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perfmon._version import __version__
from perfmon.comparison import (
    FEWEST,
    MATERIAL,
    Comparison,
    CriterionResult,
    FindingChange,
    FindingSide,
    MetricChange,
    Shift,
    Side,
)
from perfmon.core import RESAMPLES, common_folder, format_seconds, format_share
from perfmon.diagnosis import SCHEMA, Diagnosis

from . import layout
from .json_report import fields_of, json_object
from .layout import (
    STATISTICS,
    Markup,
    bullets,
    code,
    figure,
    inline,
    markdown_table,
    run_line,
    section,
)

_PASSED = {True: "✓", False: "✗", None: "?"}
_SHOWN = 40
_SHOWN_COUNTS = 24
_LEAST_SHARE = 0.0005
_METHOD = (
    f"Intervals: 95 %, from {RESAMPLES} block-bootstrap resamples. The effective sample size is in brackets after the"
    " number of samples. A change counts if its interval excludes 0 and it is at least 5 %, both of the larger value"
    " and of the distance from good to critical; (better) and (worse) in brackets are good before and after and do not"
    " affect the verdict; unsure: it may be chance."
)
_WIDTHS = (21, 8, 8, 7, 16, 8)


def text(comparison: Comparison) -> str:
    """For a terminal; ends with a newline."""
    parts = [
        [f"perfmon {__version__}", *(row for line in _runs(comparison) for row in layout.wrap(line, "  ", ""))],
        layout.wrap(comparison.sentence, "  ", f"{comparison.verdict.upper()}  "),
        _metrics_text(comparison),
        layout.listing("Findings", [_finding_text(change) for change in comparison.findings]),
        _lost_text(comparison),
        layout.listing("Criteria", [_criterion_text(result) for result in comparison.criteria]),
        layout.listing("Caveats", comparison.notes),
        layout.wrap(_METHOD),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def markdown(comparison: Comparison) -> str:
    """A page to paste; ends with a newline."""
    parts = [
        ["# Before and after", "", *(f"- {inline(line)}" for line in _runs(comparison))],
        [f"## Verdict: {comparison.verdict}", "", f"**{inline(comparison.sentence)}**"],
        _metrics_markdown(comparison),
        section("Findings", bullets([_finding_text(change) for change in comparison.findings])),
        _lost_markdown(comparison),
        section("Criteria", bullets([_criterion_text(result) for result in comparison.criteria])),
        section("Caveats", bullets(comparison.notes)),
        [inline(_METHOD)],
        [f"Written by perfmon {inline(__version__)}."],
    ]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _runs(comparison: Comparison) -> list[str]:
    return [
        f"{name}: {_where(run)}{run_line(run.run)}"
        for name, run in (("before", comparison.before), ("after", comparison.after))
    ]


def _where(snapshot: Diagnosis) -> str:
    names = [source.spec for source in snapshot.run.sources]
    where = names[0] if len(names) == 1 else common_folder(names)
    return f"{layout.fit_end(layout.one_line(where), 40)} · " if where else ""


# --- metrics ----------------------------------------------------------------------------------------------------------
def _shown(comparison: Comparison) -> tuple[list[MetricChange], list[str]]:
    """Metrics that have a row, those that moved first; and the names of the rest."""
    rows = [c for c in comparison.metrics if c.verdict is not None or c.moved or c.unsure]
    order = {"worse": 0, "better": 1, None: 2, "same": 4}
    rows.sort(key=lambda c: (order[c.verdict] + c.unsure, c.before is None or c.before.band is None, c.name))
    shown = rows[:_SHOWN]
    return shown, [change.name for change in comparison.metrics if change not in shown]


def _metrics_text(comparison: Comparison) -> list[str]:
    shown, rest = _shown(comparison)
    rows = [("mean of", "before", "after", "change", "95 % interval", ""), *map(_row, shown)]
    lines = ["  " + line for line in layout.table(rows, frozenset({0, 5}), _WIDTHS)] if shown else []
    return (
        ["Metrics", *lines, *_counts(shown), *layout.name_list("not judged, or too few samples", rest)]
        if comparison.metrics
        else ["Metrics: no data"]
    )


def _counts(shown: Sequence[MetricChange]) -> list[str]:
    """Sample counts of the significant rows."""
    counts = [
        f"{layout.one_line(change.name, 40)} {_count(change.before)} → {_count(change.after)}"
        for change in shown
        if change.unsure or change.verdict in ("better", "worse")
    ]
    return layout.wrap(f"samples (effective): {', '.join(counts[:_SHOWN_COUNTS])}", "    ", "  ") if counts else []


def _row(change: MetricChange) -> tuple[str, ...]:
    statistic, shift = _decisive(change)
    unit = change.unit
    values = (figure(_value(side, statistic), unit) for side in (change.before, change.after))
    shown = f"{change.name} {statistic}" if statistic != "mean" else change.name
    return (shown, *values, _relative(change, statistic), _short_interval(shift, unit), _verdict_text(change))


def _verdict_text(change: MetricChange) -> str:
    verdict = "WORSE" if change.verdict == "worse" else change.verdict or ("unsure" if change.unsure else "–")
    return f"({verdict.lower()})" if change.good_anyway and change.verdict in ("better", "worse") else verdict


def _decisive(change: MetricChange) -> tuple[str, Shift]:
    """The statistic that the verdict rests on."""
    statistic = change.why if change.why in change.shifts else "mean"
    return statistic, change.shifts[statistic]


def _value(side: Side | None, statistic: str) -> float | None:
    if side is None:
        return None
    value: float = getattr(side.summary, statistic)
    return value


def _relative(change: MetricChange, statistic: str) -> str:
    """The change as a share of what was before; in points where that is nothing."""
    before, shift = _value(change.before, statistic), change.shifts[statistic].change
    if not shift:
        return "0"
    if not before:
        return f"{'+' if shift > 0 else '−'}{figure(abs(shift), change.unit).replace(' ', '')}"
    share = 100.0 * shift / abs(before)
    shown = f"{abs(share):.0f}" if 10 <= abs(share) < 99 or abs(share) > 101 else f"{abs(share):.1f}"
    return f"{'+' if share > 0 else '−'}{shown} %" if share < 900 else f"× {1 + share / 100:,.0f}"


def _interval(shift: Shift, unit: str) -> str:
    if shift.ci95 is None:
        return "–"
    low, high = (f"{'−' if value < 0 else '+' if value > 0 else ''}{figure(abs(value), unit)}" for value in shift.ci95)
    return f"{low} … {high}"


def _short_interval(shift: Shift, unit: str) -> str:
    """With the unit once, or not at all, where it does not fit: a figure that is cut is another figure."""
    shown = _interval(shift, unit)
    low, _, high = shown.partition(" … ")
    figure_of, _, last_unit = low.rpartition(" ")
    if len(shown) <= _WIDTHS[4] or not figure_of or not high.endswith(f" {last_unit}"):
        return shown
    once = f"{figure_of} … {high}"
    return once if len(once) <= _WIDTHS[4] else once.removesuffix(f" {last_unit}")


def _metrics_markdown(comparison: Comparison) -> list[str]:
    if not comparison.metrics:
        return section("Metrics", ["No metric has data."])
    shown, rest = _shown(comparison)
    head = ("metric", "before", "after", "change", "95 % interval", "p50", "p95", "level", "n", "verdict")
    table = markdown_table(head, map(_cells, shown), frozenset({1, 2, 3, 4}))
    names = ", ".join(inline(name, 80) for name in rest[:100])
    return section("Metrics", [*table, *(["", f"Not judged, or too few samples: {names}."] if rest else [])])


def _cells(change: MetricChange) -> tuple[str, ...]:
    unit = change.unit
    means = (figure(_value(side, "mean"), unit) for side in (change.before, change.after))
    verdict = _verdict_text(change).lower()
    name = code(change.name, 80)
    return (
        name if unit in ("ms", "s", "%", "") else Markup(f"{name} {inline(unit, 40)}"),
        *means,
        Markup(_relative(change, "mean")),
        Markup(_interval(change.shifts["mean"], unit)),
        _both(change, "p50"),
        _both(change, "p95"),
        _bands(change),
        f"{_count(change.before)} → {_count(change.after)}",
        verdict if change.verdict in ("better", "worse") and change.why == "mean" else f"{verdict}: {change.why}",
    )


def _both(change: MetricChange, statistic: str) -> str:
    early, late = (figure(_value(side, statistic), change.unit) for side in (change.before, change.after))
    return f"{early} → {late}"


def _bands(change: MetricChange) -> str:
    bands = [side.band if side is not None and side.band else "–" for side in (change.before, change.after)]
    return bands[0] if bands[0] == bands[1] else " → ".join(bands)


def _count(side: Side | None) -> str:
    return "0" if side is None else f"{side.summary.count:,} ({side.effective:,.0f})"


# --- the rest ---------------------------------------------------------------------------------------------------------
def _finding_text(change: FindingChange) -> str:
    sides = f"{_found(change.before)} → {_found(change.after)}"
    doubt = f" ({change.doubt})" if change.doubt else ""
    return f"{change.kind}: {change.signature} ({change.severity.value}), {sides}{doubt}"


def _found(side: FindingSide | None) -> str:
    if side is None:
        return "none"
    lost = f", {format_seconds(side.lost_s)} lost ({format_share(side.lost_share)})" if side.lost_s > 0 else ""
    return f"{side.count}×{lost}"


def _criterion_text(result: CriterionResult) -> str:
    return f"{_PASSED[result.ok]} {result.name}: {result.figures}"


def _lost(comparison: Comparison) -> list[tuple[str, str, str]]:
    entries = [entry for entry in comparison.lost if max(entry.before, entry.after) >= _LEAST_SHARE]
    return [(entry.cause, format_share(entry.before), format_share(entry.after)) for entry in entries]


def _lost_moved(comparison: Comparison) -> str:
    """Change of the lost share in percentage points, with its interval."""
    shift = comparison.lost_change
    if not shift.change:
        return ""
    points = Shift(100 * shift.change, None if shift.ci95 is None else (100 * shift.ci95[0], 100 * shift.ci95[1]))
    sign = "+" if shift.change > 0 else "−"
    interval = _interval(points, "")
    return f"total lost: {sign}{abs(points.change):.1f} points, 95 % interval {interval}"


def _lost_text(comparison: Comparison) -> list[str]:
    rows, moved = _lost(comparison), _lost_moved(comparison)
    if not rows:
        return []
    lines = [f"  {line}" for line in layout.table([("", "before", "after"), *rows])]
    return ["Time breakdown", *lines, *(layout.wrap(moved, "    ", "  ") if moved else [])]


def _lost_markdown(comparison: Comparison) -> list[str]:
    rows, moved = _lost(comparison), _lost_moved(comparison)
    lines = markdown_table(("cause", "before", "after"), rows, frozenset({1, 2})) if rows else []
    return section("Time breakdown", [*lines, *(["", f"{inline(moved)}."] if rows and moved else [])])


def for_page(comparison: Comparison) -> dict[str, Any]:
    """The comparison as texts, for a page about the run after."""
    before = comparison.before
    return {
        "verdict": comparison.verdict,
        "sentence": comparison.sentence,
        "baseline": f"{_where(before)}{run_line(before.run)}",
        "found": before.verdict.sentence if before.verdict else before.summary,
        "metrics": [_cells_plain(change) for change in _shown(comparison)[0]],
        "findings": [_finding_text(change) for change in comparison.findings],
        "criteria": [_criterion_text(result) for result in comparison.criteria],
        "notes": [*([f"{moved}."] if (moved := _lost_moved(comparison)) else []), *comparison.notes],
        "method": _METHOD,
    }


def _cells_plain(change: MetricChange) -> tuple[str, ...]:
    statistic, shift = _decisive(change)
    values = (figure(_value(side, statistic), change.unit) for side in (change.before, change.after))
    return (
        change.name,
        statistic,
        *values,
        _relative(change, statistic),
        _interval(shift, change.unit),
        f"{_count(change.before)} → {_count(change.after)}",
        _verdict_text(change).lower(),
    )


# --- The `--json` document of `perfmon compare`, schema 1 ---


def document(comparison: Comparison) -> dict[str, Any]:
    """The document; `change` and `ci95` are in the metric's unit, shares are fractions of 1."""
    kinds: dict[str, list[dict[str, Any]]] = {"gone": [], "new": [], "still": []}
    for finding in comparison.findings:
        kinds[finding.kind].append(_finding_change(finding))
    return json_object(
        {
            "schema": SCHEMA,
            "perfmon": __version__,
            "verdict": comparison.verdict,
            "sentence": comparison.sentence,
            "runs": {"before": _run_document(comparison.before), "after": _run_document(comparison.after)},
            "metrics": {change.name: _metric_change(change) for change in comparison.metrics},
            "findings": kinds,
            "lost": [fields_of(entry, "cause", "before", "after") for entry in comparison.lost],
            "lost_change": fields_of(comparison.lost_change, "change", "ci95"),
            "criteria": [fields_of(result, "name", "ok") | {"text": result.figures} for result in comparison.criteria],
            "notes": comparison.notes,
            "method": {
                "intervals": "circular block bootstrap in time order, 95 %",
                "resamples": RESAMPLES,
                "fewest_samples": FEWEST,
                "material_share": MATERIAL,
            },
        }
    )


def _run_document(snapshot: Diagnosis) -> dict[str, Any]:
    return {
        **fields_of(snapshot.run, "start", "wall_s"),
        "sources": [source.spec for source in snapshot.run.sources],
        "verdict": snapshot.verdict and snapshot.verdict.signature,
        "summary": snapshot.summary,
    }


def _metric_change(change: MetricChange) -> dict[str, Any]:
    shifts = {name: fields_of(shift, "change", "ci95") for name, shift in change.shifts.items()}
    return {
        "unit": change.unit,
        "better": change.better or None,
        "before": _side_document(change.before),
        "after": _side_document(change.after),
        **shifts.pop("mean", {"change": None, "ci95": None}),
        **shifts,
        **fields_of(change, "verdict", "why", "unsure", "counts"),
    }


def _side_document(side: Side | None) -> dict[str, Any] | None:
    if side is None:
        return None
    summary = fields_of(side.summary, *STATISTICS)
    return {**summary, **fields_of(side, "effective", "band"), "bands_from": side.bands_from or None}


def _finding_change(change: FindingChange) -> dict[str, Any]:
    return {
        **fields_of(change, "signature", "title"),
        "before": change.before and fields_of(change.before, *_FINDING_SIDE),
        "after": change.after and fields_of(change.after, *_FINDING_SIDE),
        "proven": change.proven,
        "may_be_chance": change.rare,
        "spread": change.spread,
    }


_FINDING_SIDE = ("severity", "count", "lost_s", "lost_share", "sentence")
