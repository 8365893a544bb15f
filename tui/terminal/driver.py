"""The terminal driver: keys in, output out, line filters for few colours and plain ASCII."""

from __future__ import annotations

import os
import select
from codecs import getincrementaldecoder
from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from time import monotonic
from typing import Any
from weakref import ReferenceType, ref

from rich.cells import cell_len
from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.color import Color
from textual.constants import ESCAPE_DELAY
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Event, Key
from textual.filter import LineFilter
from textual.message_pump import MessagePump
from textual.screen import Screen
from textual.timer import Timer, TimerCallback

from perfmon.textgraphics import ASCII

from ..theme import ColorDepth, ThemeStyles

# --- Reads the keys: survives bytes that are no text, answers Escape soon, and ends when the terminal hangs up ---

_READ = 4096
_LOOK_MS = 100.0
"""Milliseconds within which the end of the app is noticed."""
_ESCAPE_MS = 1000.0 * ESCAPE_DELAY + 1.0
"""After this a lone Escape is no longer the begin of a longer key."""


class SturdyDriver(LinuxDriver):
    """Textual's own ends the app at a byte that is no UTF-8, and reads on and on where the terminal hung up."""

    def run_input_thread(self) -> None:
        """Hand on what is typed until the app ends, or the terminal."""
        parser = XTermParser(self._debug)
        decode = getincrementaldecoder("utf-8")(errors="replace").decode
        poll = select.poll()
        poll.register(self.fileno, select.POLLIN)
        wait_ms, parent = _LOOK_MS, os.getppid()
        while not self.exit_event.is_set():
            ready = bool(poll.poll(wait_ms))
            if os.getppid() != parent and self._is_behind():
                self._hung_up()
                return
            if ready:
                typed = self._typed()
                if not typed:
                    self._hung_up()
                    return
                for message in parser.feed(decode(typed)):
                    self.process_message(message)
            for message in parser.tick():
                self.process_message(message)
            wait_ms = min(_ESCAPE_MS, _LOOK_MS) if ready else _LOOK_MS

    def _typed(self) -> bytes:
        try:
            return os.read(self.fileno, _READ)
        except OSError:
            return b""

    def _is_behind(self) -> bool:
        """Return true if the terminal is another job's: what has started this one was killed, and its shell went on."""
        try:
            return os.tcgetpgrp(self.fileno) != os.getpgrp()
        except OSError:
            return True

    def _hung_up(self) -> None:
        """No key will be pressed any more."""
        gone = getattr(self._app, "terminal_gone", None)
        if gone is not None:
            self._loop.call_soon_threadsafe(gone)


# --- Keys that were typed before the screen they are meant for is ready: they wait for it, in the order of typing ---

_PATIENCE_S = 2.0
"""Seconds after which a screen receives its keys even if it is not ready."""
_LOOK_S = 0.01
_ON_THEIR_WAY = 256


class TypedAhead(App[int]):
    """An app that holds keys back while a screen opens; those that were on their way to the one below come back."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._held: list[Key] = []
        self._sent: deque[tuple[Key, ReferenceType[Screen[Any]]]] = deque(maxlen=_ON_THEIR_WAY)
        self._opened_at: float | None = None
        self._top: Screen[Any] | None = None

    async def on_event(self, event: Event) -> None:
        """A key, on its way down or up again, goes no further while what was opened has no focus."""
        if isinstance(event, Key):
            if self._opening() or self._was_meant_for_below(event):
                self._hold(event)
                return
            if not event.is_forwarded:
                self._sent.append((event, ref(self.screen)))
        await super().on_event(event)

    def _was_meant_for_below(self, event: Key) -> bool:
        """It comes back from a screen over which another one has been opened."""
        sent_to = next((screen() for sent, screen in self._sent if sent is event), self.screen)
        return event.is_forwarded and sent_to is not self.screen and sent_to in self.screen_stack

    def _opening(self) -> bool:
        screen = self.screen
        if screen is not self._top:
            self._opened_at, self._top = monotonic() if len(self.screen_stack) > 1 else None, screen
        if self._opened_at is None:
            return bool(self._held)
        ready = screen.is_mounted and (screen.focused is not None or not screen.focus_chain)
        if ready or monotonic() - self._opened_at > _PATIENCE_S:
            self._opened_at = None
            return bool(self._held)
        return True

    def _hold(self, event: Key) -> None:
        self._held.append(event)
        event.stop()
        event.prevent_default()
        if len(self._held) == 1:
            self.set_timer(_LOOK_S, self._release)

    def _release(self) -> None:
        if self._opening() and self._opened_at is not None:
            self.set_timer(_LOOK_S, self._release)
            return
        held, self._held = sorted(self._held, key=lambda key: key.time), []
        for key in held:
            self.post_message(Key(key.key, key.character))


# --- Timers that go off however busy the machine is ---


class Timely(MessagePump):
    """Textual drops a single timer that is late when its task begins, as if another one came after it.

    A caller that waits for it then waits for ever: so Textual's own App for a new size of the terminal, after which
    no size is taken note of any more.
    """

    def set_timer(
        self, delay: float, callback: TimerCallback | None = None, *, name: str | None = None, pause: bool = False
    ) -> Timer:
        """As Textual's own, but it is never dropped."""
        timer = super().set_timer(delay, callback, name=name, pause=pause)
        timer._skip = False
        return timer


# --- Takes every colour out of what Textual is about to write, for NO_COLOR and terminals that have none ---


class Colourless(LineFilter):
    """Leaves attributes alone; what was set off from its surroundings by a terminal's background colour is reversed.

    Textual's own filters are not enough: `Monochrome` writes shades of grey, `NoColor` writes default colours and
    loses selections.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The same text, without any colour."""
        return [
            Segment(text, None if style is None else _without_colour(style), control)
            for text, style, control in segments
        ]


@lru_cache(1024)
def _without_colour(style: Style) -> Style:
    plain = style.without_color + Style.from_meta(style.meta)  # what a click means is kept there
    return plain + Style(reverse=not style.reverse) if _fills(style.bgcolor) else plain


def _fills(ground: RichColor | None) -> bool:
    return ground is not None and not ground.is_default and ground.triplet is None


COLOURLESS = Colourless()


def line_filters(depth: ColorDepth, filters: Sequence[LineFilter]) -> Sequence[LineFilter]:
    """Return Textual's own filters, or only Colourless where no colour may show, for `App.get_line_filters`."""
    return [COLOURLESS] if depth is ColorDepth.NONE else filters


# --- Writes plain ASCII where the terminal has no UTF-8: log text and punctuation too, each in as many cells as before
# ---

_KNOWN = {"…": "~", "·": "-", "×": "x", "–": "-", "—": "-", "’": "'", "“": '"', "”": '"', "\u202f": " ", "\xa0": " "}


class AsciiOnly(LineFilter):
    """Every other character becomes question marks, as many as it has cells."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The same segments, as wide as before."""
        return [
            segment if segment.text.isascii() else Segment(ascii_text(segment.text), segment.style, segment.control)
            for segment in segments
        ]


def ascii_text(text: str) -> str:
    """A text of as many cells without anything but ASCII."""
    return "".join(char if char.isascii() else _KNOWN.get(char) or "?" * cell_len(char) for char in text)


ASCII_ONLY = AsciiOnly()


def filters_for(skin: ThemeStyles, filters: Sequence[LineFilter] = ()) -> Sequence[LineFilter]:
    """Return the filters of all lines on a terminal; `filters` are Textual's own."""
    more = line_filters(skin.depth, filters)
    return [*more, ASCII_ONLY] if skin.glyphs is ASCII else more
