"""All that is known of one alert, as lines: what holds, what else it could be, what it costs, what to do, the proof."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from perfmon.drawing import compact_seconds, cut, fit
from perfmon.picture import Alert, Picture
from perfmon.rules.wording import counted, format_share
from perfmon.snapshot import EvidenceLine, Finding
from perfmon.units import format_seconds

from ..skin import Skin
from .alerts import LEVELS, WORDS, age_s, state_style, state_words
from .moments import brief_seconds, moment_text
from .prose import Words, ending, paragraph, rule
from .rows import cells
from .waterfall import waterfall

_HELD = {True: ("good", "good"), False: ("critical", "muted"), None: ("unknown", "stale")}
"""Glyph and style of a condition that holds, does not, or could not be observed."""
_HOUR_S = 3600.0
_SOURCE_SHARE = 0.35


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the page."""

    words: Words
    evidence: EvidenceLine | None = None
    """The log line that it shows: what the cursor stops at."""


def status(alert: Alert, picture: Picture, skin: Skin, width: int) -> Words:
    """Severity, state, age, how often, first and last."""
    finding, base = alert.finding, picture.time_base
    level = LEVELS[finding.severity]
    words = state_words(alert, base) or alert.state.value
    return (
        (f"{skin.glyph('edge')}{skin.glyph(level)} {WORDS[finding.severity]} ", level),
        (f"{skin.glyph(alert.state.value)} {words} ", state_style(alert)),
        (f"{compact_seconds(age_s(alert, picture.now), 6)}  ", "muted"),
        (f"{finding.title}  " if width >= 110 else "", "title"),
        (f"{counted(alert.count, 'occurrence')}  ", "text"),
        (f"first {moment_text(alert.began, base)}  last {moment_text(alert.last, base)}", "muted"),
    )


def detail(alert: Alert, picture: Picture, skin: Skin, width: int) -> list[Line]:
    """The whole page at that width."""
    finding = alert.finding
    room = width - 2
    sections: list[tuple[str, str, list[Words]]] = [
        ("WHY", _confidence(finding), _conditions(finding, skin, room)),
        ("OFTEN CONFUSED WITH", "", _rivals(finding, picture, skin, room)),
        ("COST", "", [words for text in _cost(alert, picture) for words in paragraph(text, room, "text", "  ")]),
        ("WHAT TO DO", "", _numbered(finding.advice, room)),
        ("NOT OBSERVED", "would raise the confidence", _bullets(finding.unseen, skin, room)),
        ("OCCURRENCES", "newest first", waterfall(alert, picture, skin, width)),
    ]
    lines = [Line(words) for words in paragraph(finding.sentence, room, "text", " ")]
    # A name that fills the row would leave its value a column, and every line of that as wide as the name.
    named = ((f" {cut(name, max(1, room // 2))}: ", value) for name, value in alert.key[1])
    lines += [Line(words) for name, value in named for words in paragraph(value, room, "muted", name)]
    for title, note, body in sections:
        if body:
            lines += [Line(rule(title, skin, width, note)), *map(Line, body)]
    return [*lines, *_evidence(finding.evidence, skin, width)]


def _confidence(finding: Finding) -> str:
    held = sum(condition.held is True for condition in finding.conditions)
    return f"{held} of {counted(len(finding.conditions), 'condition')} met" if finding.conditions else ""


def _conditions(finding: Finding, skin: Skin, room: int) -> list[Words]:
    rows: list[Words] = []
    for condition in finding.conditions:
        glyph, style = _HELD[condition.held]
        rows += paragraph(condition.text, room, "text", f" {skin.glyph(glyph)} ", style)
    return rows


def _rivals(finding: Finding, picture: Picture, skin: Skin, room: int) -> list[Words]:
    """Signatures that are often confused with it, and if they were found too."""
    found = {other.signature: other.state for other in (picture.snapshot.findings if picture.snapshot else ())}
    rows: list[Words] = []
    for rival in finding.confused_with:
        name = rival.partition(":")[0]
        if name in found:
            rows += paragraph(
                f"{rival} (also found: {found[name]})", room, "text", f" {skin.glyph('warning')} ", "warning"
            )
        else:
            absent = "" if " " in name else " (ruled out)"
            rows += paragraph(f"{rival}{absent}", room, "muted", f" {skin.glyph('bullet')} ")
    return rows


def _cost(alert: Alert, picture: Picture) -> Iterable[str]:
    finding = alert.finding
    wall = picture.snapshot.run.wall_s if picture.snapshot else picture.window_s
    if finding.lost_s > 0:
        yield (
            f"{format_seconds(finding.lost_s)} of the last {brief_seconds(wall)} "
            f"({format_share(finding.lost_share)}); ≈ {format_seconds(finding.lost_share * _HOUR_S)} per hour"
        )
    elif alert.lost_s <= 0:
        yield "no time attributed"
    if alert.lost_s > finding.lost_s + 1.0:
        yield f"{format_seconds(alert.lost_s)} since perfmon started"
    if finding.explained_by is not None:
        yield f"explained by {finding.explained_by}: fix that first"


def _numbered(texts: Sequence[str], room: int) -> list[Words]:
    return [words for at, text in enumerate(texts, 1) for words in paragraph(text, room, "text", f" {at} ", "accent")]


def _bullets(texts: Sequence[str], skin: Skin, room: int) -> list[Words]:
    return [words for text in texts for words in paragraph(text, room, "muted", f" {skin.glyph('unknown')} ", "stale")]


def _evidence(lines: Sequence[EvidenceLine], skin: Skin, width: int) -> list[Line]:
    """Position and text of each line; keys act on the one under the cursor."""
    if not lines:
        return []
    where = [f"{line.source}:{line.line}" for line in lines]
    column = min(max(cells(place) for place in where), max(8, int(_SOURCE_SHARE * width)))
    rows = [Line(rule("EVIDENCE", skin, width, "Enter log  y copy  O pager" if width >= 60 else ""))]
    for place, line in zip(where, lines, strict=True):
        told = (f" {ending(place, column, skin)}  ", "accent"), (fit(line.text, max(0, width - column - 4)), "text")
        rows.append(Line(told, line))
    return rows
