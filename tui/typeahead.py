"""Keys that were typed before the screen they are meant for is ready: they wait for it, in the order of typing."""

from __future__ import annotations

from collections import deque
from time import monotonic
from typing import Any
from weakref import ReferenceType, ref

from textual.app import App
from textual.events import Event, Key
from textual.screen import Screen

_PATIENCE_S = 2.0
"""What is not ready by then gets its keys all the same."""
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
        """It comes back from a screen over which another one was opened meanwhile."""
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
