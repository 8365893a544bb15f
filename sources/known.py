"""The files that a follower knows, by device and inode: so that no text is read twice under two names."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from pathlib import Path

from .rotation import may_hold, names_of_logs
from .stream import Identity, Print, Stream, identity_of

_REMEMBERED = 4096
_CERTAIN_S = 2.0
"""How long a file that may be the unfinished copy of a rotated log is left alone."""


class Known:
    """Streams that are open, or were; and the texts that truncated logs held, copies of which may turn up."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._doubted: dict[Identity, float] = {}
        self._copies: set[Identity] = set()
        self._streams: OrderedDict[Identity, Stream] = OrderedDict()
        self._texts: deque[tuple[Path, Print]] = deque(maxlen=64)

    @property
    def identities(self) -> set[Identity]:
        """All files that are known."""
        return set(self._streams)

    def claim(self, path: Path, owner: object) -> Stream | None:
        """The stream of the file at `path`, going on where it ended.

        None while someone else follows it, and for the copy that a rotation made of a log that is followed. Raises
        OSError when the file cannot be opened.
        """
        identity = identity_of(path.stat())
        known = self._streams.get(identity)
        if known is not None and known.owner is not None:
            return None
        if known is None and self._is_copy(path, identity):
            return None
        if known is None or not known.reopen(path):
            known = Stream(path)
        known.path = path
        known.owner = owner
        self._streams[known.identity] = known
        return known

    def is_known(self, path: Path) -> bool:
        """Whether the file at `path` was read before, under whatever name."""
        return identity_of(path.stat()) in self._streams

    def release(self, stream: Stream) -> None:
        """Closes a stream; it is remembered, so that another name of its file does not read it again."""
        stream.close()
        self._streams.move_to_end(stream.identity)
        closed = [identity for identity, known in self._streams.items() if known.owner is None]
        for identity in closed[: max(0, len(closed) - _REMEMBERED)]:
            del self._streams[identity]

    def replaced(self, path: Path, text: Print) -> None:
        """Remembers the text that the log at `path` held before it was truncated."""
        self._texts.append((path, text))

    def _is_copy(self, path: Path, identity: Identity) -> bool:
        """Whether a file is a copy, or may become one: for a while a copy is shorter than what it copies."""
        if identity in self._copies:
            return True
        names = names_of_logs(path.name)  # most have none, and a thousand logs need not be compared with each other
        beside = {path.with_name(name) for name in names}
        held = [self._holds(path, text) for log, text in self._all_texts() if log in beside] if beside else []
        if True in held:
            self._copies.add(identity)
            return True
        return None in held and self._clock() - self._doubted.setdefault(identity, self._clock()) < _CERTAIN_S

    def _holds(self, path: Path, text: Print) -> bool | None:
        return may_hold(path, text) if text.position else False

    def _all_texts(self) -> list[tuple[Path, Print]]:
        followed = [(stream.path, stream.print) for stream in self._streams.values() if stream.owner is not None]
        return [*self._texts, *followed]

    def close(self) -> None:
        """Closes all streams."""
        for stream in self._streams.values():
            stream.close()
