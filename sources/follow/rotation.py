"""Rotated logs: where their text went, and the inodes that are read already."""

from __future__ import annotations

import os
import re
import resource
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from errno import EMFILE
from pathlib import Path

from ..spec import compression_of
from .file_reader import HEAD_SIZE, TAIL_SIZE, Fingerprint, Identity, Stream, identity_of

# --- Where the text of a rotated log went: the copies and older parts next to it ---

_ROTATED = re.compile(r"[.-](\d[\d._T:-]*|old|bak|prev)$")

_COUNTED = re.compile(r"\.(\d{1,4})(?:\.[a-z]\w+)?$")


def is_part_of(path: Path, log: Path) -> bool:
    """True if `path` is named like an older part of `log`: `a.log.1`, `a.log-20260101`, `a.log.2.gz`."""
    return path.name.startswith(log.name) and path.parent == log.parent and log.name in names_of_logs(path.name)


def names_of_logs(name: str) -> set[str]:
    """The names of which `name` may be an older part's."""
    bare = name.rpartition(".")[0] if compression_of(name) else name
    ends = (at for at, char in enumerate(bare) if at and char in ".-")
    return {bare[:at] for at in ends if _ROTATED.fullmatch(bare, at)}


def age_by_name(path: str) -> tuple[int, str]:
    """Sort parts of one moment, the oldest first: of `a.log.2` and `a.log.1` the first, of dates the earlier."""
    count = _COUNTED.search(path)
    return (-int(count[1]) if count else 0, path)


def parts_of(log: Path) -> list[tuple[Path, os.stat_result]]:
    """The uncompressed older parts of a log, the oldest first."""
    found = []
    try:
        with os.scandir(log.parent) as entries:
            for entry in entries:
                path = Path(entry.path)
                if is_part_of(path, log) and not compression_of(entry.name) and entry.is_file(follow_symlinks=False):
                    found.append((path, entry.stat()))
    except OSError:
        return []
    return sorted(found, key=lambda part: part[1].st_mtime_ns)


def rest_in_copy(log: Path, known: Fingerprint) -> bytes | None:
    """The rest of a truncated log after the position that was read, from a copy of it; None without a copy.

    Reads at most 64 MiB: what was written between the last look and the truncation.
    """
    if not known.position:
        return None
    for path, state in reversed(parts_of(log)):
        if state.st_size >= known.position and holds(path, known):
            with path.open("rb") as file:
                file.seek(known.position)
                return file.read(1 << 26)
    return None


def holds(path: Path, known: Fingerprint) -> bool:
    """True if the file at `path` begins with a known text."""
    try:
        with path.open("rb") as file:
            return known.fits(file.fileno())
    except OSError:
        return False


def begins_with(fd: int, part: Path) -> bool:
    """True if an open file begins with all that another one holds: that is a copy of it."""
    with suppress(OSError), part.open("rb") as file:
        size, other = os.fstat(file.fileno()).st_size, file.fileno()
        head, start = os.pread(other, HEAD_SIZE, 0), max(0, size - TAIL_SIZE)
        return size > 0 and Fingerprint(head, os.pread(other, size - start, start), size).fits(fd)
    return False


def may_hold(path: Path, known: Fingerprint) -> bool | None:
    """`holds`, of a file that is still being written; None while it is too short to know."""
    with path.open("rb") as file:
        return known.may_fit(file.fileno())


def parts_since(log: Path, changed_ns: int, is_known: Callable[[Path, Identity], bool]) -> Iterator[Path]:
    """Unknown parts that were written at or after `changed_ns`: logs that came and went between two looks."""
    for path, state in parts_of(log):
        if state.st_mtime_ns >= changed_ns and not is_known(path, identity_of(state)):
            yield path


# --- The files that a follower knows, by device and inode: so that no text is read twice under two names ---

_REMEMBERED = 4096
_ENOUGH = 1 << 16
_SPARE, _FEW = 64, 32
"""Descriptors that are left for everything else: a log more is not worth a recording that cannot be closed."""
CERTAIN_S = 2.0
"""Seconds for which a file that may be the unfinished copy of a rotated log is left alone."""


def _open_files() -> int:
    """The most files that this process may have open, once its limit is raised to what the system allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return wanted
    return _ENOUGH if soft == resource.RLIM_INFINITY else soft


class InodeRegistry:
    """Streams that are open, or were; and the texts that truncated logs held, copies of which may turn up."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.crowded = False
        """More logs were found than can be open at once."""
        self._clock = clock
        self._most = max(_FEW, _open_files() - _SPARE)
        self._count = 0
        """Streams that are open."""
        self._doubted: dict[Identity, float] = {}
        self._copies: dict[Identity, Fingerprint] = {}
        """Files that are copies, with the text they are copies of: a file that is gone gives its number to another."""
        self._streams: OrderedDict[Identity, Stream] = OrderedDict()
        self._texts: deque[tuple[Path, Fingerprint]] = deque(maxlen=64)

    def claim(self, path: Path, owner: object) -> Stream | None:
        """The stream of the file at `path`, going on where it ended.

        None while someone else follows it, and for the copy that a rotation made of a log that is followed. Raises
        OSError when the file cannot be opened.
        """
        identity = identity_of(path.stat())
        known = self._streams.get(identity)
        if known is not None and known.owner is not None:
            return None
        if self._count >= self._most:
            raise OSError(EMFILE, os.strerror(EMFILE))
        if known is None or not self._goes_on(known, path):
            if self._is_copy(path, identity):
                return None
            known = Stream(path)
        self._count += 1
        known.path = path
        known.owner = owner
        self._streams[known.identity] = known
        return known

    def heir(self, old: Stream, owner: object) -> Stream | None:
        """A copy that replaced `old`, which is gone, and has been renamed since: it goes on where `old` ended."""
        for path, state in parts_of(old.path):
            known = self._streams.get(identity_of(state))
            if (known is not None and known.owner is not None) or self._count >= self._most:
                continue
            with suppress(OSError):
                stream = Stream(path)
                if stream.size() > old.print.position and stream.goes_on(old):
                    self._count += 1
                    stream.owner = owner
                    self._streams[stream.identity] = stream
                    return stream
                stream.close()
        return None

    def is_known(self, path: Path, identity: Identity) -> bool:
        """True if the file at `path` was read before, under any name; its number alone may be that of another one."""
        known = self._streams.get(identity)
        return known is not None and (known.owner is not None or holds(path, known.print))

    def release(self, stream: Stream) -> None:
        """Close a stream; it is remembered, so that another name of its file does not read it again."""
        stream.close()
        self._count -= 1
        self._streams.move_to_end(stream.identity)
        closed = [identity for identity, known in self._streams.items() if known.owner is None]
        for identity in closed[: max(0, len(closed) - _REMEMBERED)]:
            del self._streams[identity]

    def replaced(self, path: Path, text: Fingerprint) -> None:
        """Remember the text that the log at `path` held before it was truncated."""
        self._texts.append((path, text))

    def _goes_on(self, known: Stream, path: Path) -> bool:
        """Open a file again that was read; False where it is another one with its number, even a copy of its text."""
        if not known.print.position:
            return False
        copied, sure = self._copied(path)
        more = copied is not None and copied.position > known.print.position
        return sure and not more and known.reopen(path)

    def _is_copy(self, path: Path, identity: Identity) -> bool:
        """True if a file is a copy, or may become one: for a while a copy is shorter than its original."""
        sure, copied = True, self._copies.pop(identity, None)
        if copied is None or not holds(path, copied):
            copied, sure = self._copied(path)
        if copied is not None:
            self._copies[identity] = copied
        if sure:
            self._doubted.pop(identity, None)  # the next rotation may write another copy into the same file
            return copied is not None
        if self.is_copied_now(path):
            self._doubted.pop(identity, None)
            return True
        return self._clock() - self._doubted.setdefault(identity, self._clock()) < CERTAIN_S

    def may_be_copy(self, path: Path) -> bool | None:
        """True for a copy that a rotation made of a log that is or was followed; None while too short to decide."""
        copied, sure = self._copied(path)
        return copied is not None if sure else None

    def is_copied_now(self, path: Path) -> bool:
        """True while a file holds the begin of a followed log, of which it is an older part by name: a large copy."""
        names = names_of_logs(path.name)
        for stream in self._streams.values() if names else ():
            related = stream.path.name in names and stream.path.parent == path.parent
            if stream.owner is not None and related and begins_with(stream.fd, path):
                return True
        return False

    def _copied(self, path: Path) -> tuple[Fingerprint | None, bool]:
        """The text that a file is a copy of, and False while it is too short to be sure."""
        names = names_of_logs(path.name)  # most have none, and a thousand logs need not be compared with each other
        sure = True
        for log, text in self._all_texts() if names else ():
            if not text.position or log == path or log.parent != path.parent:
                continue
            if log.name in names or not names.isdisjoint(names_of_logs(log.name)):
                held = may_hold(path, text)
                if held:
                    return text, True
                sure = sure and held is not None
        return None, sure

    def _all_texts(self) -> list[tuple[Path, Fingerprint]]:
        followed = [(stream.path, stream.print) for stream in self._streams.values() if stream.owner is not None]
        return [*self._texts, *followed]

    def close(self) -> None:
        """Close all streams."""
        for stream in self._streams.values():
            stream.close()
