"""Structure of a theme: a style for everything that is drawn, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

ATTRIBUTES = ("bold", "dim", "italic", "underline", "reverse")
TERMINAL_COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
"""Colours that a terminal's own settings define; each also as `bright-…`."""
TERMINAL_NAMES = ("default", *TERMINAL_COLOURS, *(f"bright-{name}" for name in TERMINAL_COLOURS))

COLOURS_OF_CAUSES = 8
COLOURS_OF_SOURCES = 8

GROUNDS: Mapping[str, str] = {
    "background": "the screen",
    "panel": "the header, the footer and overlays",
    "cursor": "the row or column under the cursor",
}
"""Styles that are drawn below others: only their background counts, and attributes such as `reverse`."""

PAIRS: Mapping[str, str] = {
    "selection": "the selection in a list or an input",
    "match": "search matches",
    "badge-good": "a verdict on a filled background: healthy",
    "badge-warning": "a verdict on a filled background: warning",
    "badge-critical": "a verdict on a filled background: critical",
    "badge-stale": "a verdict on a filled background: unknown",
    "badge-info": "a filled background: paused, replay, recording",
}
"""Styles that bring their own background."""

TEXTS: Mapping[str, str] = {
    "text": "body text",
    "muted": "labels, units, secondary text",
    "faint": "separators, empty tracks, hints",
    "accent": "interactive elements",
    "title": "titles of panes",
    "frame": "frames of panes",
    "frame-focus": "the frame of the pane that has the focus",
    "good": "good values, ✓",
    "warning": "values between good and critical, !",
    "critical": "critical values, ✗",
    "stale": "stale or unknown values, ?",
    "info": "notes that are neither good nor bad",
    "productive": "time that did useful work",
    "unknown": "unattributed time, or an unknown phase",
    "send": "a weight update leaves the client",
    "queue": "a weight update waits in the server's queue",
    "rpc": "a weight update is loaded",
    "done": "a weight update has ended",
    "checkpoint-write": "a checkpoint is written",
    "checkpoint-wait": "waiting for a checkpoint",
    "generation": "a batch is generated",
    "staleness": "how old the weights of rollouts are",
    "metric": "a metric without thresholds",
    "footer-key": "keys in the footer",
    "footer-text": "key descriptions in the footer",
    **{f"cause{i}": "lost time by cause, beyond those that have a colour above" for i in range(COLOURS_OF_CAUSES)},
    **{f"source{i}": "names of logs, in turn" for i in range(COLOURS_OF_SOURCES)},
}
"""Styles that are drawn on a ground: they have no background of their own."""

STYLES: Mapping[str, str] = {**GROUNDS, **PAIRS, **TEXTS}
"""Every name with what it is for."""


@dataclass(frozen=True, slots=True)
class Spec:
    """Style of an element. Colours are `#rrggbb`, a name of TERMINAL_NAMES, or None for the one below."""

    colour: str | None = None
    background: str | None = None
    attributes: frozenset[str] = frozenset()


Look = Mapping[str, Spec]
"""A Spec for every name of STYLES."""


@dataclass(frozen=True, slots=True)
class ThemeData:
    """A theme with nothing left open."""

    name: str
    title: str
    dark: bool
    """It is light on dark."""
    inherits: bool
    """It uses the terminal's own colours and background."""
    styles: Look
    """For terminals with 256 colours or more."""
    sixteen: Look
    """For terminals with 16 colours: their own, on their own background."""
    plain: Look
    """Without any colour: attributes alone."""
