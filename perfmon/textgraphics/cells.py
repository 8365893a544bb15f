"""Text and numbers in a given number of cells, and the characters of one cell that stand for states and amounts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite, isnan
from types import MappingProxyType

from perfmon.core import STEPS, format_bytes, format_seconds, plain

_NAMED: Mapping[str, tuple[str, str]] = {
    # levels, and their words
    "none": ("·", "."),
    "good": ("✓", "+"),
    "warning": ("!", "!"),
    "critical": ("✗", "X"),
    "info": ("·", "."),
    # alerts, by `picture.AlertState`
    "pending": ("◔", "o"),
    "firing": ("●", "*"),
    "acked": ("●", "*"),
    "resolving": ("◑", "-"),
    "resolved": ("○", "."),
    "inhibited": ("⊘", "/"),
    "silenced": ("∅", "0"),
    "unknown": ("?", "?"),
    "flapping": ("≈", "~"),
    # sources, by `picture.Freshness`
    "fresh": ("✓", "+"),
    "idle": ("-", "-"),
    "lagging": ("~", "~"),
    "stale": ("?", "?"),
    "waiting": ("…", ":"),
    # the run, by `picture.RunState`
    "loading": ("…", ":"),
    "live": ("▶", ">"),
    "paused": ("‖", "|"),
    "replay": ("▷", ">"),
    "ended": ("■", "#"),
    "recording": ("●", "*"),
    # legs of a weight update
    "send": ("○", "o"),
    "queue": ("░", "."),
    "rpc": ("█", "#"),
    "done": ("●", "*"),
    "unknown-leg": ("▒", "?"),
    "open": ("▸", ">"),
    # bars and shares
    "full": ("█", "#"),
    "dark": ("▓", "%"),
    "medium": ("▒", "="),
    "light": ("░", "-"),
    "hatch": ("▞", "/"),
    "dot": ("·", "."),
    "gauge": ("━", "="),
    "gauge-end": ("╸", "-"),
    "edge": ("▌", "|"),
    # lines and frames
    "horizontal": ("─", "-"),
    "vertical": ("│", "|"),
    "dashed": ("╌", "-"),
    "threshold": ("┄", "-"),
    "top-left": ("╭", "+"),
    "top-right": ("╮", "+"),
    "bottom-left": ("╰", "+"),
    "bottom-right": ("╯", "+"),
    "tee-left": ("├", "+"),
    "tee-right": ("┤", "+"),
    "cross": ("┼", "+"),
    # pointing
    "next": ("▸", ">"),
    "here": ("◂", "<"),
    "caret": ("▏", "|"),
    "left": ("←", "<"),
    "right": ("→", ">"),
    "up": ("↑", "^"),
    "down": ("↓", "v"),
    "up-mark": ("▲", "^"),
    "down-mark": ("▼", "v"),
    "expand": ("▸", ">"),
    "collapse": ("▾", "v"),
    "bullet": ("•", "*"),
    "cut": ("…", "~"),
    "infinity": ("∞", "^"),
}


@dataclass(frozen=True, slots=True)
class Glyphs:
    """A set of characters; every one takes exactly one cell."""

    named: Mapping[str, str]
    """By name: levels, states of alerts, sources and the run, legs, fills, frames, arrows."""
    spark: str
    """Eight levels, lowest first."""
    eighths: str
    """Seven widths of a cell that is filled from the left, narrowest first."""

    def __getitem__(self, name: str) -> str:
        """The character of that name; KeyError for a name that there is not."""
        return self.named[name]


UNICODE = Glyphs(MappingProxyType({name: pair[0] for name, pair in _NAMED.items()}), "▁▂▃▄▅▆▇█", "▏▎▍▌▋▊▉")
ASCII = Glyphs(MappingProxyType({name: pair[1] for name, pair in _NAMED.items()}), "_.-:=+*#", "  -----")


def glyphs_for(environment: Mapping[str, str]) -> Glyphs:
    """The set that a terminal shows, by the locale that it announces; one that announces none is taken for UTF-8."""
    locale = next((value for name in ("LC_ALL", "LC_CTYPE", "LANG") if (value := environment.get(name))), "")
    return UNICODE if not locale or "utf8" in locale.lower().replace("-", "") else ASCII


_UNITS = ("", "k", "M", "G", "T", "P", "E")
_BRIEF = {"tokens/s": (" tok/s", "/s")}
"""Short forms of units: the metric's name states what they count, too."""
MISSING = "-"
"""For what is not a number."""


def cut(text: str, cells: int, glyphs: Glyphs = UNICODE) -> str:
    """`text` in at most `cells` cells, with a mark where something went; wide characters are never halved."""
    if cells <= 0:
        return ""
    if text.isascii() and text.isprintable():
        return text if len(text) <= cells else text[: cells - 1] + glyphs["cut"]
    from rich.cells import cell_len, set_cell_size

    text = plain(text[: 16 * cells + 64], 4 * cells + 8)
    return text if cell_len(text) <= cells else set_cell_size(text, cells - 1) + glyphs["cut"]


def fit(text: str, cells: int, *, right: bool = False, glyphs: Glyphs = UNICODE) -> str:
    """`text` in exactly `cells` cells: cut, or filled up with spaces on the right (`right`: on the left)."""
    text = cut(text, cells, glyphs)
    if text.isascii():
        return text.rjust(cells) if right else text.ljust(cells)
    from rich.cells import cell_len

    fill = " " * (cells - cell_len(text))
    return fill + text if right else text + fill


def compact(value: float, cells: int = 5) -> str:
    """A number in at most `cells` cells: `0.52`, `140`, `9999`, `11.2k`, `3.4M`; `###` when there is no room."""
    if not isfinite(value):
        return _first((MISSING if isnan(value) else f"{value}",), cells)
    return _first((*_tiny(value), *(_scaled(value, digits) for digits in (3, 2, 1))), cells)


def compact_seconds(seconds: float, cells: int = 6) -> str:
    """A duration in at most `cells` cells: `87 ms`, `30.3 s`, `3m 20s`, `1d 3h`; shorter where it must be."""
    if not isfinite(seconds):
        return compact(seconds, cells)
    text = format_seconds(seconds)
    number, _, unit = text.partition(" ")
    if unit in ("s", "ms"):
        return _first((text, number + unit, f"{float(number):.0f}{unit}", *_rounded(seconds)), cells)
    return _first((text, text.replace(" ", ""), number, *_rounded(seconds)), cells)


def compact_bytes(count: float, cells: int = 8) -> str:
    """Bytes in at most `cells` cells: `812 B`, `1.4 KiB`, `1.4K`."""
    if not isfinite(count):
        return compact(count, cells)
    text = format_bytes(count)
    number, _, unit = text.partition(" ")
    return _first((text, number + unit, number + unit[0], f"{float(number):.0f}{unit[0]}"), cells)


@lru_cache(maxsize=1024)
def compact_value(value: float, unit: str, cells: int = 7) -> str:
    """A metric's value with its unit in at most `cells` cells; the unit goes first when there is no room."""
    if not isfinite(value):
        return compact(value, cells)
    if unit in ("ms", "s"):
        return compact_seconds(value / 1000 if unit == "ms" else value, cells)
    if unit == "B":
        return compact_bytes(value, cells)
    if unit == "%":
        return _first((f"{value:.1f} %", f"{value:.1f}%", f"{value:.0f}%", _scaled(value, 1)), cells)
    number = compact(value, cells)
    whole = unit.removesuffix("s") if number == "1" and unit == STEPS else unit
    forms = (unit,) if unit.startswith("/") else (f" {whole}", *_BRIEF.get(unit, ())) if unit else ()
    return next((text for form in forms if len(text := f"{number}{form}") <= cells), number)


def shown_unit(unit: str) -> str:
    """Units that the metric's name contains already take no room."""
    return {"steps": "", "tokens/s": "/s"}.get(unit, unit)


def _first(texts: Iterable[str], cells: int) -> str:
    """The first text that fits; a number cut short would be another number."""
    return next((text for text in texts if len(text) <= cells), "#" * max(0, cells))


def _rounded(seconds: float) -> tuple[str, ...]:
    """The largest unit alone, for the narrowest of columns."""
    size = abs(seconds)
    for unit, length in (("d", 86400.0), ("h", 3600.0), ("m", 60.0), ("s", 1.0)):
        if size >= length:
            return (f"{seconds / length:.0f}{unit}",)
    return ("0s",)


def _tiny(value: float) -> tuple[str, ...]:
    """Forms of a number that two decimals would lose: `0.0012`, `3e-7`."""
    if not 0.0 < abs(value) < 0.0095:
        return ()
    mantissa, _, exponent = f"{value:.0e}".partition("e")
    short = f"{mantissa}e{int(exponent)}"
    return (f"{value:.4f}".rstrip("0"), short) if abs(value) >= 0.001 else (short,)


def _scaled(value: float, digits: int) -> str:
    """`value` with about that many digits, in thousands, millions and so on from ten thousand."""
    size = abs(value)
    sign = "-" if value < 0 else ""
    if size < 9999.5:
        whole = value == int(value) or size >= 10**digits
        decimals = 0 if whole else max(0, digits - max(1, len(str(int(size)))))
        text = f"{size:.{decimals}f}"
        return (sign if float(text) else "") + text
    for unit in _UNITS[1:]:
        size /= 1000
        if size < 999.5:
            return f"{sign}{size:.{max(0, digits - len(str(int(size))))}f}{unit}"
    return f"{value:.0e}".replace("e+", "e")
