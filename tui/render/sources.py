"""Sources as rows: freshness, rate, and how well each is understood."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import PurePath

from perfmon.core import TimeBase, counted, format_bytes, format_share
from perfmon.textgraphics import bar, compact, compact_bytes, compact_seconds, fit
from perfmon.viewmodel import Freshness, MonitorState, SourceStatus, levels_text, little_is_recognised

from ..theme import ThemeStyles
from .rows import Words, cells, ending, ends, moment_text, paragraph, rule

# --- A log as one row: whether it is about the present, how fast it grows, and what is wrong with it ---

STYLES = {
    Freshness.FRESH: "good",
    Freshness.IDLE: "muted",
    Freshness.LAGGING: "warning",
    Freshness.STALE: "stale",
    Freshness.WAITING: "muted",
    Freshness.ENDED: "faint",
}


def freshness_word(freshness: Freshness) -> str:
    """Name a freshness on the screen, where stale is a word for rollouts."""
    return "silent" if freshness is Freshness.STALE else freshness.value


def age(source: SourceStatus) -> str:
    """Since something was last read of it; whole seconds, so that it changes once a second at most."""
    if source.age_s is None:
        return "-"
    whole = max(0, int(source.age_s))
    return "now" if whole == 0 else f"{whole}s" if whole < 100 else compact_seconds(whole, 6).replace(" ", "")


def problems(source: SourceStatus) -> str:
    """Its problem in a few words; "" without one."""
    parts = [text] if (text := levels_text((source,), 30)) else []
    parts += [f"{source.errors} lost"] if source.errors else []
    parts += [f"{source.skipped} skipped"] if source.skipped else []
    return " · ".join([*parts, *source.notes[-1:]])


def common_ending(names: Sequence[str]) -> str:
    """The ending that all logs have, with its dot; "" where there is none, or only one log."""
    endings = {PurePath(name).suffix for name in names}
    return endings.pop() if len(endings) == 1 and len(names) > 1 else ""


def source_row(source: SourceStatus, skin: ThemeStyles, width: int, folder: str = "", common: str = "") -> Words:
    """Exactly `width` cells: the narrower, the fewer columns; the name without the folder that all logs lie in.

    Where there is no room for it the name goes without the ending that all have in `common`, too.
    """
    words: list[tuple[str, str]] = []
    wide, narrow = width >= 72, width < 36
    tail: list[tuple[str, str]] = [
        (f" {compact(source.lines_per_s, 3 if narrow else 6)}/s".rjust(6 if narrow else 9), "text"),
        *([(f" {compact_bytes(source.bytes_per_s, 8)}/s".rjust(12), "muted")] if width >= 96 else []),
        (age(source).rjust(7), STYLES[source.freshness]),
    ]
    words.append((f" {skin.glyph(source.freshness.value)} ", STYLES[source.freshness]))
    if width >= 44:
        words.append((fit(freshness_word(source.freshness), 8), STYLES[source.freshness]))
    room = width - sum(len(text) for text, _ in (*words, *tail))
    trouble = problems(source)
    problem_cells = min(60, room // 4) if wide and (trouble or width >= 120) else 0
    form = 20 if width >= 96 else 14 if wide else 0
    name = max(0, room - (problem_cells + 1 if problem_cells else 0) - (form + 1 if form else 0))
    shown = source.name.removeprefix(folder)
    shown = shown.removesuffix(common) if cells(shown) > name else shown
    words.append((ends(shown, name, skin), f"source{source.index % 8}"))
    if form:
        words.append((" " + fit(source.format, form, glyphs=skin.glyphs), "muted"))
    words += tail
    if problem_cells:
        style = "critical" if source.error_lines else "warning" if source.errors or source.warning_lines else "muted"
        words.append((" " + fit(trouble, problem_cells, glyphs=skin.glyphs), style))
    return tuple(words)


# --- Parse coverage of each log: recognised lines by pattern, and unrecognised lines ---

_BAR, _PATTERNS = 12, 40


def doctor(picture: MonitorState, skin: ThemeStyles, width: int) -> tuple[list[Words], list[int]]:
    """All logs one below another, and the line at which each begins."""
    rows: list[Words] = []
    starts: list[int] = []
    for source in picture.sources:
        starts.append(len(rows))
        rows += [*_section(source, picture.time_base, skin, width), ((" ", "text"),)]
    return rows or [((" no logs yet", "muted"),)], starts


def _section(source: SourceStatus, base: TimeBase, skin: ThemeStyles, width: int) -> list[Words]:
    style = STYLES[source.freshness]
    name = ending(source.name, min(len(source.name), max(8, width - 24)), skin)
    rows = [rule(name, skin, width, freshness_word(source.freshness))]
    for label, value, look in _facts(source, base, style):
        rows += paragraph(value, width - 2, look, f" {label:<8}", "muted")
    rows += [words for note in source.notes for words in paragraph(note, width - 2, "text", " ! ", "warning")]
    rows += _patterns(source, skin, width)
    if little_is_recognised(source):
        command = f"`perfmon formats learn {shlex.quote(source.name)}` or :learn proposes a format for it"
        rows += paragraph(command, width - 2, "text", " > ", "accent")
    if source.unparsed:
        rows.append(((" unrecognised lines", "muted"),))
        rows += [((" ? ", "stale"), (fit(text, width - 4, glyphs=skin.glyphs), "text")) for text in source.unparsed]
    return rows


def _facts(source: SourceStatus, base: TimeBase, style: str) -> Iterable[tuple[str, str, str]]:
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


def _patterns(source: SourceStatus, skin: ThemeStyles, width: int) -> list[Words]:
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
