"""The evidence of a finding: its occurrences, and few lines, the most informative ones first."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from perfmon.core import Ref, Summary, evidence_text, metric_unit, summarise
from perfmon.rules import Found, Item, Occurrence, View

from .result import EvidenceLine, Moment

NEWEST = 500
"""Occurrences that a finding lists."""
_LINES = 8
_WORST_FIRST = (0, 1, 4)
_SHOWN_FIRST = (2, 3, 4)
"""Of other occurrences than the worst: the lines with the figures, then the beginnings, then the rest."""


def evidence_lines(finding: Found, view: View) -> tuple[EvidenceLine, ...]:
    """Lines of the worst, the first and the last occurrence, then of others; those that carry the figures first."""
    lines: dict[tuple[str, int], tuple[tuple[int, int, int], str]] = {}
    for place, occurrence in enumerate(_chosen(finding)):
        for role, (ref, text) in _by_role(occurrence.item, view):
            order = (_SHOWN_FIRST[role] if place else _WORST_FIRST[role], place, role)
            lines.setdefault((_name(ref, view), ref.line), (order, text))
    best = sorted(lines.items(), key=lambda line: (line[1][0], line[0]))[:_LINES]
    return tuple(EvidenceLine(name, line, evidence_text(text)) for (name, line), (_, text) in best)


def _name(ref: Ref, view: View) -> str:
    return view.store.sources[ref.source].spec


def _chosen(finding: Found) -> list[Occurrence]:
    """The worst, the first and the last occurrence, then the next worst."""
    trigger = next(iter(finding.occurrences[0].item.values), "")

    def badness(occurrence: Occurrence) -> tuple[float, ...]:
        item = occurrence.item
        return (-occurrence.level, -item.values.get(trigger, 0.0), item.start - item.end, item.start)

    ordered = sorted(finding.occurrences, key=badness)
    chosen = [ordered[0], finding.occurrences[0], finding.occurrences[-1], *ordered[1 : _LINES + 1]]
    return list({id(occurrence): occurrence for occurrence in chosen}.values())


def _by_role(item: Item, view: View) -> list[tuple[int, tuple[Ref, str]]]:
    """The lines of an item: 0 the one with most of its figures, 1 the one it begins with, 2 the others.

    Its own log comes first, the others by name: in which order they were read must not show.
    """
    names = [f"{name.partition('.')[0]}=" for name in item.values]
    lines = [line for line in item.refs if line[1]]
    lines.sort(key=lambda line: (line[0].source != item.source, _name(line[0], view), line[0].line))
    best = max(lines, key=lambda line: sum(name in line[1] for name in names), default=None)
    roles = [(0 if line is best else 1 if line is lines[0] else 2, line) for line in lines]
    return sorted(roles, key=lambda role: role[0])


def moments(finding: Found, view: View) -> tuple[Moment, ...]:
    """The newest occurrences; several of one line are numbered in their order."""
    begin, count = view.window[0], Counter[tuple[int, ...]]()
    newest = sorted((occurrence.item for occurrence in finding.occurrences), key=lambda item: (item.end, item.start))[
        -NEWEST:
    ]
    moments = []
    for item in newest:
        name = _unchanging(item)
        unique = (*name, count[name]) if name and count[name] else name
        count[name] += 1
        moments.append(Moment(unique, item.start - begin, item.end - begin, evidence_text(item.key)))
    return tuple(moments)


def _unchanging(item: Item) -> tuple[int, ...]:
    """The permanent identity of an occurrence: its number as a span, or its line."""
    if item.span is not None:
        return (item.span.seq,)
    if item.end > item.start or not item.refs:
        return ()
    ref = item.refs[0][0]
    return (ref.source, ref.line, ref.offset)


# --- Statistics of a metric by log and group, so that one bad engine is not hidden among good ones ---

LEVELS = ("good", "warning", "critical")


@dataclass(frozen=True, slots=True)
class Part:
    """One metric of one log and group over the window."""

    metric: str
    source: str
    """Name of the log that reports it; that of the client for weight updates."""
    group: str
    """Rank, engine, URL, `host:name` ...; "" where the lines name none."""
    unit: str
    """By `metric_unit`; values and limits are in it."""
    summary: Summary
    last: float
    level: str | None
    """Band of `last`: good, warning, critical; None for a metric without a band."""
    good: float | None = None
    critical: float | None = None
    """Limits of the band, as they hold for this run."""
    lower_is_worse: bool = False


def parts(view: View) -> tuple[Part, ...]:
    """Every metric of `view`, by metric, log and group; its cost grows with the samples of the window."""
    return tuple(part for metric in sorted(view.metrics) for part in _parts(metric, view))


def _parts(metric: str, view: View) -> list[Part]:
    track, band = view.metrics[metric], view.bands.get(metric)
    named: dict[tuple[str, str], list[float]] = {}
    for at, value in enumerate(track.values):
        named.setdefault((view.store.sources[track.source(at)].spec, track.group(at)), []).append(value)
    return [
        Part(
            metric=metric,
            source=source,
            group=group,
            unit=metric_unit(metric),
            summary=summarise(values),
            last=values[-1],
            level=None if band is None else LEVELS[band.level(values[-1])],
            good=None if band is None else band.good,
            critical=None if band is None else band.critical,
            lower_is_worse=band is not None and not band.higher_is_worse,
        )
        for (source, group), values in sorted(named.items())
    ]
