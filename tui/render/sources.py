"""A log as one row: whether it speaks of the present, how fast it grows, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from perfmon.drawing import compact, compact_bytes, compact_seconds, fit
from perfmon.picture import Freshness, SourceNow
from perfmon.rules.wording import counted

from ..skin import Skin
from .prose import Words, ends
from .rows import cells

STYLES = {
    Freshness.FRESH: "good",
    Freshness.LAGGING: "warning",
    Freshness.STALE: "stale",
    Freshness.WAITING: "muted",
    Freshness.ENDED: "faint",
}


def age(source: SourceNow) -> str:
    """Since something was last read of it; whole seconds, so that it changes once a second at most."""
    if source.age_s is None:
        return "-"
    whole = max(0, int(source.age_s))
    return "now" if whole == 0 else f"{whole}s" if whole < 100 else compact_seconds(whole, 6).replace(" ", "")


def problems(source: SourceNow) -> str:
    """Its problem in a few words; "" without one."""
    told = [counted(source.errors, "error")] if source.errors else []
    told += [f"{source.skipped} skipped"] if source.skipped else []
    return " · ".join([*told, *source.notes[-1:]])


def common_folder(names: Sequence[str]) -> str:
    """The folder that all logs lie in, with its last slash; "" where there is none, or only one log."""
    if len(names) < 2 or not all("/" in name for name in names):
        return ""
    shared = [name.rpartition("/")[0].split("/") for name in names]
    count = next((at for at, parts in enumerate(zip(*shared, strict=False)) if len(set(parts)) > 1), None)
    parts = shared[0][: min(map(len, shared)) if count is None else count]
    return "/".join(parts) + "/" if parts else ""


def common_ending(names: Sequence[str]) -> str:
    """The ending that all logs have, with its dot; "" where there is none, or only one log."""
    endings = {PurePath(name).suffix for name in names}
    return endings.pop() if len(endings) == 1 and len(names) > 1 else ""


def source_row(source: SourceNow, skin: Skin, width: int, folder: str = "", common: str = "") -> Words:
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
        words.append((fit(source.freshness.value, 8), STYLES[source.freshness]))
    room = width - sum(len(text) for text, _ in (*words, *tail))
    trouble = problems(source)
    said = min(60, room // 4) if wide and (trouble or width >= 120) else 0
    form = 20 if width >= 96 else 14 if wide else 0
    name = max(0, room - (said + 1 if said else 0) - (form + 1 if form else 0))
    shown = source.name.removeprefix(folder)
    shown = shown.removesuffix(common) if cells(shown) > name else shown
    words.append((ends(shown, name, skin), f"source{source.index % 8}"))
    if form:
        words.append((" " + fit(source.format, form, glyphs=skin.glyphs), "muted"))
    words += tail
    if said:
        words.append((" " + fit(trouble, said, glyphs=skin.glyphs), "warning" if source.errors else "muted"))
    return tuple(words)
