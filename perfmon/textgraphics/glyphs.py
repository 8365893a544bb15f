"""The characters that stand for states and amounts: one cell each, with plain ASCII for terminals without UTF-8."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

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
