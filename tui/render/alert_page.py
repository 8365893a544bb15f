"""All that is known of one alert, as lines: what holds, what else it could be, what it costs, what to do, the proof."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count, repeat

from perfmon.core import counted, format_seconds, format_share, format_value
from perfmon.diagnosis import EvidenceLine, Finding
from perfmon.textgraphics import compact_seconds, cut, fit
from perfmon.viewmodel import Alert, MonitorState

from ..theme import ThemeStyles
from .alerts import LEVELS, WORDS, age_s, state_style, state_words, waterfall
from .rows import Entry, Words, cells, ending, moment_text, paragraph, rule, short_duration

_HELD = {True: ("firing", "text"), False: ("resolved", "muted"), None: ("unknown", "stale")}
"""Glyph and style of a condition that is met, is not, or could not be observed: a fault that is met is not good."""
_HOUR_S = 3600.0
_SOURCE_SHARE = 0.35


def status(alert: Alert, picture: MonitorState, skin: ThemeStyles, width: int) -> Words:
    """Severity, state, age, how often, first and last."""
    finding, base = alert.finding, picture.time_base
    level = LEVELS[finding.severity]
    words = state_words(alert, base) or ("until the end" if picture.is_over else alert.state.value)
    ago = " ago" if picture.is_over else ""
    return (
        (f"{skin.glyph('edge')}{skin.glyph(level)} {WORDS[finding.severity]} ", level),
        (f"{skin.glyph(alert.state.value)} {words} ", state_style(alert)),
        (f"{compact_seconds(age_s(alert, picture), 6)}{ago}  ", "muted"),
        (f"{finding.title}  " if width >= 110 else "", "title"),
        (f"{counted(alert.count, 'occurrence')}  ", "text"),
        (f"first {moment_text(alert.began, base)}  last {moment_text(alert.last, base)}", "muted"),
    )


def detail(alert: Alert, picture: MonitorState, skin: ThemeStyles, width: int) -> list[Entry]:
    """The whole page at that width."""
    finding = alert.finding
    room = width - 2
    sections: list[tuple[str, str, list[Words]]] = [
        ("POSSIBLE CAUSES", "the likeliest first", _hypotheses(finding, skin, room)),
        ("WHY", _confidence(finding), _conditions(finding, skin, room)),
        (
            "WHAT TO DO",
            "y copies the command under the cursor" if width >= 60 else "",
            _marked(map(str, count(1)), finding.advice, room, "text", "accent"),
        ),
        ("COST", "", [words for text in _cost(alert, picture) for words in paragraph(text, room, "text", "  ")]),
        ("THRESHOLDS", "B learns them from this run, or takes these back", _limits(finding, picture, room)),
        ("OFTEN CONFUSED WITH", "", _rivals(finding, picture, skin, room)),
        (
            "NOT OBSERVED",
            "would raise the confidence",
            _marked(repeat(skin.glyph("unknown")), finding.unseen, room, "muted", "stale"),
        ),
        ("OCCURRENCES", "newest first", waterfall(alert, picture, skin, width)),
    ]
    lines = [Entry(words) for words in paragraph(finding.sentence, room, "text", " ")]
    # A name that fills the row would leave its value a column, and every line of that as wide as the name.
    named = ((f" {cut(name, max(1, room // 2))}: ", value) for name, value in alert.key[1])
    lines += [Entry(words) for name, value in named for words in paragraph(value, room, "muted", name)]
    for title, note, body in sections:
        if body:
            lines += [Entry(rule(title, skin, width, note)), *map(Entry, body)]
        if title == "WHAT TO DO":
            lines += _commands(finding, skin, room)
    return [*lines, *_evidence(finding.evidence, skin, width)]


def _commands(finding: Finding, skin: ThemeStyles, room: int) -> Iterable[Entry]:
    """The commands to run; the cursor stops at each, and `y` copies it. The last one explains the signature."""
    for command in (*finding.commands, f"perfmon rules explain {finding.signature}"):
        sign = skin.glyph("bullet") if command.startswith("--") else "$"
        first, *rest = paragraph(command, room, "accent", f"   {sign} ", "muted")
        yield Entry(first, command=command)
        yield from map(Entry, rest)


def _confidence(finding: Finding) -> str:
    held = sum(condition.held is True for condition in finding.conditions)
    return f"{held} of {counted(len(finding.conditions), 'condition')} met" if finding.conditions else ""


def _conditions(finding: Finding, skin: ThemeStyles, room: int) -> list[Words]:
    rows: list[Words] = []
    for condition in finding.conditions:
        glyph, style = _HELD[condition.held]
        rows += paragraph(condition.text, room, "text", f" {skin.glyph(glyph)} ", style)
    return rows


def _limits(finding: Finding, picture: MonitorState, room: int) -> list[Words]:
    """The thresholds of its metrics that are in force, and where they come from."""
    known = picture.snapshot.metrics if picture.snapshot is not None else {}
    names = dict.fromkeys(word for one in finding.conditions for word in one.value.split() if word in known)
    rows: list[Words] = []
    for stats in (known[name] for name in names):
        if stats.good is not None and stats.critical is not None:
            better, worse = "<>" if stats.critical >= stats.good else "><"
            good, critical = (format_value(value, stats.unit) for value in (stats.good, stats.critical))
            origin = stats.bands_from or "a file of yours"
            text = f"{stats.name}: good {better} {good}, critical {worse} {critical} (from {origin})"
            rows += paragraph(text, room, "muted", "  ")
    return rows


_STANDING = {"shown": True, "refuted": False}
"""Hypotheses in terms of conditions; the others are open."""


def _hypotheses(finding: Finding, skin: ThemeStyles, room: int) -> list[Words]:
    """Each possible cause with its standing, and the values for it, against it, and not observed."""
    rows: list[Words] = []
    for number, one in enumerate(finding.hypotheses, start=1):
        glyph, style = _HELD[_STANDING.get(one.standing)]
        rows += paragraph(f"{number} {one.title} ({one.standing})", room, "title", f" {skin.glyph(glyph)} ", style)
        for held, texts in ((True, one.supporting), (False, one.contradicting), (None, one.unseen)):
            glyph, style = _HELD[held]
            if texts:
                rows += paragraph("; ".join(texts), room, "muted", f"     {skin.glyph(glyph)} ", style)
    return rows


def _rivals(finding: Finding, picture: MonitorState, skin: ThemeStyles, room: int) -> list[Words]:
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


def _cost(alert: Alert, picture: MonitorState) -> Iterable[str]:
    finding = alert.finding
    wall = picture.snapshot.run.wall_s if picture.snapshot else picture.window_s
    if finding.lost_s > 0:
        yield (
            f"{format_seconds(finding.lost_s)} of the last {short_duration(wall)} "
            f"({format_share(finding.lost_share)}); ≈ {format_seconds(finding.lost_share * _HOUR_S)} per hour"
        )
        verdict = None if picture.snapshot is None else picture.snapshot.verdict
        if verdict is not None and verdict.lost_by and verdict.signature == finding.signature:
            yield f"time of {verdict.lost_by}: steps take longer only as far as they wait for it"
    elif alert.lost_s <= 0:
        yield "no time attributed"
    if alert.lost_s > finding.lost_s + 1.0:
        yield f"{format_seconds(alert.lost_s)} since perfmon started"
    if finding.explained_by is not None:
        yield f"explained by {finding.explained_by}: fix that first"


def _marked(marks: Iterable[str], texts: Sequence[str], room: int, style: str, mark_style: str) -> list[Words]:
    """Each text as a paragraph behind its mark."""
    pairs = zip(marks, texts, strict=False)
    return [words for mark, text in pairs for words in paragraph(text, room, style, f" {mark} ", mark_style)]


def _evidence(lines: Sequence[EvidenceLine], skin: ThemeStyles, width: int) -> list[Entry]:
    """Position and text of each line, log by log in their order; keys act on the one under the cursor."""
    if not lines:
        return []
    lines = sorted(lines, key=lambda line: (line.source, line.line))
    where = [f"{line.source}:{line.line}" for line in lines]
    column = min(max(cells(place) for place in where), max(8, int(_SOURCE_SHARE * width)))
    rows = [Entry(rule("EVIDENCE", skin, width, "Enter log  y copy  O pager" if width >= 60 else ""))]
    for place, line in zip(where, lines, strict=True):
        words = (f" {ending(place, column, skin)}  ", "accent"), (fit(line.text, max(0, width - column - 4)), "text")
        rows.append(Entry(words, line))
    return rows
