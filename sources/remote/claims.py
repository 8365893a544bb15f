"""Which text of a machine is read by whom, by device and inode: so that none is read twice under two names."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from ..blocks import Cutter
from ..stream import EMPTY, Identity, Print
from .files import Handle

_REMEMBERED = 4096


@dataclass(slots=True)
class Text:
    """One file's text: where reading stands, and whether it is still the same."""

    identity: Identity
    print: Print = EMPTY
    cutter: Cutter = field(default_factory=lambda: Cutter(frames=True))
    handle: Handle | None = None
    """How it is read; None while there is no connection, or once it was let go."""
    ignored: bool = False
    """Its contents are no log: read over."""
    owner: object | None = None
    changed_s: float = -1.0
    """When it had last been written to as it was read last."""
    stamp: str = ""
    since_s: float | None = None
    """Since when parts may have been missed: they are looked for as soon as something is read."""
    history: int = 0
    """Up to here it was there when it was found."""

    def restart(self) -> None:
        """The file holds another text."""
        self.print, self.cutter, self.changed_s, self.stamp = EMPTY, Cutter(frames=True), -1.0, ""

    def advance(self, data: bytes) -> None:
        """These bytes were read."""
        self.print = grown(self.print, data)


HEAD, TAIL = 256, 64
"""Bytes by which a text is told again."""


def grown(old: Print, data: bytes) -> Print:
    """The print of a text of which these bytes were read, too."""
    if not data:
        return old
    head = old.head if len(old.head) == HEAD else (old.head + data[:HEAD])[:HEAD]
    return Print(head, (old.tail + data[-TAIL:])[-TAIL:], old.position + len(data))


class Claims:
    """The texts of one machine that are read, or were."""

    def __init__(self) -> None:
        self._texts: OrderedDict[Identity, Text] = OrderedDict()

    def known(self, identity: Identity) -> bool:
        """Whether it is, or was, read."""
        return identity in self._texts

    def text(self, identity: Identity) -> Text | None:
        """The text that was read last of the file with this number."""
        return self._texts.get(identity)

    def owner(self, identity: Identity) -> object | None:
        """Who reads a file; None when nobody does."""
        text = self._texts.get(identity)
        return None if text is None else text.owner

    def claim(self, identity: Identity, owner: object) -> Text | None:
        """The text of a file, going on where it ended; None while someone else reads it."""
        text = self._texts.get(identity)
        if text is not None and text.owner not in (None, owner):
            return None
        if text is None:
            text = self._texts[identity] = Text(identity)
        text.owner = owner
        return text

    def release(self, text: Text) -> None:
        """Nobody reads it any more; it stays known."""
        text.owner = text.handle = None
        self._texts.move_to_end(text.identity)
        while len(self._texts) > _REMEMBERED:
            oldest = next(iter(self._texts.values()))
            if oldest.owner is not None:
                break
            del self._texts[oldest.identity]
