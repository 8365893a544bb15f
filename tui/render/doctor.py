"""Parse coverage of each log: recognised lines by pattern, and unrecognised lines."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from perfmon.drawing import bar, compact, compact_seconds, fit
from perfmon.model import TimeBase
from perfmon.picture import Picture, SourceNow, little_is_recognised
from perfmon.rules.wording import counted, format_share
from perfmon.units import format_bytes

from ..skin import Skin
from .moments import moment_text
from .prose import Words, ending, paragraph, rule
from .sources import STYLES, age

_BAR, _PATTERNS = 12, 40


def doctor(picture: Picture, skin: Skin, width: int) -> tuple[list[Words], list[int]]:
    """All logs one below another, and the line at which each begins."""
    rows: list[Words] = []
    starts: list[int] = []
    for source in picture.sources:
        starts.append(len(rows))
        rows += [*_section(source, picture.time_base, skin, width), ((" ", "text"),)]
    return rows or [((" no logs yet", "muted"),)], starts


def _section(source: SourceNow, base: TimeBase, skin: Skin, width: int) -> list[Words]:
    style = STYLES[source.freshness]
    name = ending(source.name, min(len(source.name), max(8, width - 24)), skin)
    rows = [rule(name, skin, width, source.freshness.value)]
    rows += _facts(source, base, skin, width, style)
    rows += [words for note in source.notes for words in paragraph(note, width - 2, "text", " ! ", "warning")]
    rows += _patterns(source, skin, width)
    if little_is_recognised(source):
        command = f"`perfmon formats learn {shlex.quote(source.name)}` or :learn proposes a format for it"
        rows += paragraph(command, width - 2, "text", " > ", "accent")
    if source.unparsed:
        rows.append(((" unrecognised lines", "muted"),))
        rows += [((" ? ", "stale"), (fit(text, width - 4, glyphs=skin.glyphs), "text")) for text in source.unparsed]
    return rows


def _facts(source: SourceNow, base: TimeBase, skin: Skin, width: int, style: str) -> list[Words]:
    rows: list[Words] = []
    for name, value, look in _told(source, base, style):
        rows += paragraph(value, width - 2, look, f" {name:<8}", "muted")
    return rows


def _told(source: SourceNow, base: TimeBase, style: str) -> Iterable[tuple[str, str, str]]:
    share = format_share(source.events / source.lines) if source.lines else "0 %"
    missing = " - see `perfmon analyze LOG --explain-formats`" if source.lines and not source.events else ""
    matched = f"{source.events:,} of {counted(source.lines, 'line')} recognised ({share}){missing}"
    yield "format", f"{source.format}; {matched}", "text" if source.events else "warning"
    rates = f"{compact(source.lines_per_s, 6)} lines/s, {format_bytes(source.bytes_per_s)}/s"
    read = f"{format_bytes(source.bytes)} read, {rates}"
    yield "read", f"{read}, last {age(source)}{'' if age(source) in ('-', 'now') else ' ago'}", style
    if source.last is not None:
        yield "clock", f"last timestamp {moment_text(source.last, base)}{_offset(source.offset_s)}", "text"
    else:
        yield "clock", "no timestamp yet", "muted"
    if source.errors or source.skipped:
        lost = f"{counted(source.errors, 'error')}, {source.skipped} lines with implausible values"
        yield "lost", lost, "warning" if source.errors else "text"


def _offset(offset_s: float | None) -> str:
    if offset_s is None:
        return ""
    sign = "-" if offset_s < 0 else "+"
    return f"; {sign}{compact_seconds(abs(offset_s), 8)} against the client's clock"


def _patterns(source: SourceNow, skin: Skin, width: int) -> list[Words]:
    ordered = sorted(source.patterns.items(), key=lambda pattern: (-pattern[1], pattern[0]))
    most = ordered[0][1] if ordered else 1
    rows: list[Words] = []
    for name, lines in ordered[:_PATTERNS]:
        drawn = bar(lines / max(1, most), _BAR, skin.glyphs)
        room = max(0, width - 12 - _BAR)
        rows.append(((f"{lines:>9} ", "text"), (f"{drawn} ", "accent"), (fit(name, room, glyphs=skin.glyphs), "muted")))
    if len(ordered) > _PATTERNS:
        rows.append(((f" {len(ordered) - _PATTERNS} more patterns", "faint"),))
    return rows
