"""What proves a finding: when it occurred, and few lines, the most telling ones first."""

from __future__ import annotations

from perfmon.rules.found import Found, Occurrence
from perfmon.rules.items import Item
from perfmon.rules.view import View

from .model import Ref
from .snapshot import EvidenceLine, Moment
from .text import evidence_text

NEWEST = 500
"""Occurrences that a finding tells one by one."""
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
    told = [line for line in item.refs if line[1]]
    told.sort(key=lambda line: (line[0].source != item.source, _name(line[0], view), line[0].line))
    telling = max(told, key=lambda line: sum(name in line[1] for name in names), default=None)
    roles = [(0 if line is telling else 1 if line is told[0] else 2, line) for line in told]
    return sorted(roles, key=lambda role: role[0])


def moments(finding: Found, view: View) -> tuple[Moment, ...]:
    """The newest occurrences; two that one line tells of are told apart by their order."""
    begin, told = view.window[0], dict[tuple[int, ...], int]()
    newest = sorted((occurrence.item for occurrence in finding.occurrences), key=_by_end)[-NEWEST:]
    moments = []
    for item in newest:
        name = _unchanging(item)
        again = told[name] = told.get(name, -1) + 1
        unique = (*name, again) if name and again else name
        moments.append(Moment(unique, item.start - begin, item.end - begin, evidence_text(item.key)))
    return tuple(moments)


def _by_end(item: Item) -> tuple[float, float]:
    return (item.end, item.start)


def _unchanging(item: Item) -> tuple[int, ...]:
    """What stays the same of an occurrence whatever is learned of it: its number as a span, or its line."""
    if item.span is not None:
        return (item.span.seq,)
    if item.end > item.start or not item.refs:
        return ()
    ref = item.refs[0][0]
    return (ref.source, ref.line, ref.offset)
