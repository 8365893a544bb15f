"""Follows one log by its name, through rotation, truncation, deletion and links that are pointed elsewhere.

All of it is blocking: a round over many logs costs one thread's turn, not several a log.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from errno import EMFILE
from pathlib import Path

from perfmon.core import Block, Notice, NoticeKind, plain

from ..discovery import LogFile
from ..spec import HEAD, compression_in, is_binary
from .file_reader import Stream, identity_of
from .rotation import CERTAIN_S, InodeRegistry, begins_with, parts_since, rest_in_copy

LINGER_S = 5.0
"""Seconds for which a renamed or deleted file is still read after it last grew: some writers are slow to let go."""
_TURN = 4
"""Chunks that one log may take before the others have theirs."""
Item = tuple[LogFile, Block | Notice]


class Tail:
    """The text that appears under one name, whatever file bears it."""

    def __init__(
        self, log: LogFile, known: InodeRegistry, clock: Callable[[], float], *, history: bool | int, new: bool
    ) -> None:
        self.log = log
        self.stream: Stream | None = None
        self.more = False
        """There is more to read at once."""
        self._known = known
        self._clock = clock
        self._skip = history is not True
        self._keep = int(history)
        """Bytes of the history that are read, where not all of it is."""
        self._new = new
        self._looked: tuple[os.stat_result | None] | tuple[()] = ()
        """State of the file that bears the name, in a tuple, where it was looked at just before; else ()."""
        self._next: Stream | None = None
        """The empty file that bears the name by now: its writer may still end a line in the old one."""
        self._gone_at: float | None = None
        self._doubted_until: float | None = None
        """Until then a text that was replaced may turn out to be a copy."""
        self._left_ns: int | None = None
        """Time of the last write to the file that last bore the name, in nanoseconds."""
        self._emptied_ns: int | None = None
        """Time since which texts may have been copied that were never looked at: the file was emptied."""
        self._last_notice = ""
        self._failure = ""
        """Why it could not be read when that was last tried."""
        self._late: list[tuple[Stream, float]] = []

    @property
    def behind(self) -> int:
        """Bytes of the open file that were there when it was looked at last, and are not read yet."""
        return 0 if self.stream is None else max(0, self.stream.known_size - self.stream.print.position)

    def look(self) -> bool:
        """True if `advance` has anything to do."""
        state = _state(self.log.path)
        self._looked = (state,)
        if self.stream is None or state is None or self._late or identity_of(state) != self.stream.identity:
            return True
        if self._doubted_until is not None or self._next is not None or not self.stream.quiet():
            return True
        return self.stream.unfinished(self._clock())

    def advance(self) -> Iterator[Item]:
        """Yield what is new."""
        self.more = False
        for stream, until in list(self._late):
            yield from self._read_late(stream, until)
        # Looked at before the old file is read to its end: who writes to the new one has left the old one by then.
        (state,), self._looked = self._looked or (_state(self.log.path),), ()
        if self.stream is None:
            yield from self._open(state)
        if self.stream is None:
            return
        yield from self._read(self.stream)
        if self.more:
            return
        if self._next is not None or (state is not None and identity_of(state) != self.stream.identity):
            yield from self._follow_name(self.stream, state)
            if self.more and self.stream is not None:  # at once: its copies are known by what was read of it
                yield from self._read(self.stream)
        elif state is None:
            yield from self._gone()
        else:
            self._gone_at = None
            if self.stream.unfinished(self._clock()):
                yield from map(self._item, self.stream.cutter.release())

    def fail(self, error: OSError) -> Iterator[Item]:
        """The open file cannot be read: a disk fails, or a server of files has forgotten it. It is opened again."""
        self.more, self._looked = False, ()
        for stream in (self.stream, self._next):
            if stream is not None:
                self._known.release(stream)
        self.stream = self._next = self._gone_at = None
        failure = f"cannot be read ({error.strerror}): retrying"
        if failure != self._failure:
            self._failure = failure
            yield from self._notices("lost", failure, again=True)

    def finish(self) -> Iterator[Item]:
        """Yield the unfinished last line: following ends."""
        if self.stream is not None and not self.stream.ignored:
            yield from map(self._item, self.stream.cutter.finish())

    def _open(self, state: os.stat_result | None) -> Iterator[Item]:
        """Open the file that bears the name now, unless it is read under another one."""
        path = self.log.path
        if state is None:
            self._new, self._skip = self._new or not self._last_notice, False
            yield from self._notices("gone", "does not exist yet: waiting")
            return
        try:
            known = self._known.is_known(path, identity_of(path.stat()))
            stream = self._known.claim(path, self)
            if stream is not None and self._skip:
                stream.skip_history(self._keep)
        except FileNotFoundError:
            return
        except OSError as error:
            yield from self._unreadable(error)
            return
        if stream is None:
            return
        new, self._new, self._skip, self._last_notice = self._new, False, False, ""
        if new and not known:
            yield from self._notices("appeared", "new log: reading", again=True)
        yield from self._begin(stream)

    def _read(self, stream: Stream) -> Iterator[Item]:
        """The next few chunks; at the end of the text `more` is False."""
        self.more = False
        for _ in range(_TURN):
            begins = not stream.print.position
            data, replaced = stream.read_at(self._clock())
            self._failure = "" if data else self._failure
            if begins and data:
                if stream is self.stream and self._emptied_ns is not None:
                    since_ns, self._emptied_ns = self._emptied_ns, None
                    yield from self._read_all_missed(stream, since_ns)
                yield from self._judge(stream, data[:HEAD])
            if not stream.ignored:
                for block in stream.cutter.feed(data):
                    yield self._item(block)
            if replaced:
                items = self._replaced(stream)
                if items is None:
                    return
                yield from items
            elif stream.at_end:
                self._doubted_until = None
                return
        self.more = True

    def _judge(self, stream: Stream, head: bytes) -> list[Item]:
        text = head.lstrip(b"\0")
        stream.ignored = is_binary(text) or compression_in(text) is not None
        return self._notices("lost", "binary, not a log: skipped", again=True) if stream.ignored else []

    def _replaced(self, stream: Stream) -> list[Item] | None:
        """The file was truncated or rewritten: with a copy of another log, of its own text, or with a new one.

        None while it is still being written and may become a copy.
        """
        rest = rest_in_copy(self.log.path, stream.print)
        if rest is None:
            states = (stream.print.may_fit(stream.fd), self._known.may_be_copy(self.log.path))
            if states[1]:
                stream.restart()
                stream.skip_history()
                return []
            if self._doubted_until is None:
                self._doubted_until = self._clock() + CERTAIN_S
            if None in states and self._known.is_copied_now(self.log.path):
                self._doubted_until = self._clock() + CERTAIN_S
            if None in states and self._clock() < self._doubted_until:
                return None
        self._doubted_until = None
        return self._start_over(stream, rest)

    def _start_over(self, stream: Stream, rest: bytes | None) -> list[Item]:
        """Read the new text from its start; before it, what a copy holds of the old one."""
        items = [self._item(block) for block in stream.cutter.feed(rest or b"") + stream.cutter.finish()]
        self._known.replaced(self.log.path, stream.print)
        if stream is self.stream and self._emptied_ns is None:
            self._emptied_ns = stream.read_to_ns
        stream.restart()
        doubt = "" if rest is not None else "; the last lines before that may be lost"
        return items + self._notices("truncated", f"truncated or rewritten: reading from the start{doubt}", again=True)

    def _gone(self) -> Iterator[Item]:
        """The name is gone, the file may still be written to."""
        assert self.stream is not None  # noqa: S101
        if self._gone_at is None:
            self._gone_at = self._clock()
            yield from self._notices("gone", _why_gone(self.log.path), again=True)
            return
        if self._clock() - self._gone_at < LINGER_S:
            return
        for block in self.stream.cutter.finish():
            yield self._item(block)
        since_ns = self._left_ns = self._left_ns or self.stream.changed_at_ns()
        self._known.release(self.stream)
        self.stream, self._new = None, True
        # The file that bore the name last may never have been looked at.
        yield from self._read_all_missed(None, since_ns)

    def _read_all_missed(self, next_: Stream | None, since_ns: int) -> Iterator[Item]:
        """Read parts that came and went since then, before the text that is read next."""
        for part in self._missed(next_, since_ns):
            yield from self._read_missed(part)

    def _missed(self, next_: Stream | None, since_ns: int) -> list[Path]:
        return [
            part
            for part in parts_since(self.log.path, since_ns, self._known.is_known)
            if not (next_ and begins_with(next_.fd, part)) and not self._begins_with(part)
        ]

    def _begins_with(self, part: Path) -> bool:
        """The file that bears the name now will be read, and a part is a copy of it."""
        with suppress(OSError), self.log.path.open("rb") as file:
            identity = identity_of(os.fstat(file.fileno()))
            return (self.stream is None or identity != self.stream.identity) and begins_with(file.fileno(), part)
        return False

    def _follow_name(self, old: Stream, state: os.stat_result | None) -> Iterator[Item]:
        """Another file bears the name, or did: the end of the old one first."""
        new, self._next = self._next, None
        try:
            if new is not None and not new.size() and (state is None or identity_of(state) != new.identity):
                self._late.append((new, self._clock() + LINGER_S))
                new = None
            # Held open before older parts are looked for: whatever is renamed from now on is one or the other.
            fresh = new is None
            new = new or self._known.claim(self.log.path, self)
        except FileNotFoundError:
            return
        except OSError as error:
            yield from self._unreadable(error)
            return
        if (
            new is not None
            and not new.size()
            and not old.ignored
            and not (fresh and self._missed(new, old.changed_at_ns()))
        ):
            self._next = new
            return
        if new is not None and new.goes_on(old):
            self._known.release(old)
            self.stream, self._gone_at, self.more = new, None, True
            return
        yield from self._switch(old, new)

    def _switch(self, old: Stream, new: Stream | None) -> Iterator[Item]:
        heir = None if old.linked else self._known.heir(old, self)
        if heir is not None:
            self._known.release(old)
            old, self.more = heir, True
            while self.more:
                yield from self._read(old)
        for block in old.cutter.finish():
            yield self._item(block)
        self._late.append((old, self._clock() + LINGER_S))
        self.stream, self._gone_at = None, None
        self._left_ns = self._left_ns or old.changed_at_ns()
        if new is not None:
            yield from self._begin(new)

    def _begin(self, new: Stream) -> Iterator[Item]:
        """Read `new` from now on; before it, what came and went since the last file."""
        if self._left_ns is not None:
            if new.linked:  # else it was replaced by what may be a part by now: its own text first
                yield from self._read_all_missed(new, self._left_ns)
                self._left_ns = None
            yield from self._notices("rotated", "rotated: reading the new file", again=True)
        self.stream, self._gone_at, self._emptied_ns, self.more = new, None, None, True

    def _read_missed(self, part: Path) -> Iterator[Item]:
        """A log that was rotated away before it was ever looked at."""
        try:
            stream = self._known.claim(part, self)
        except OSError:
            return
        if stream is None:
            return
        yield from self._notices("rotated", f"rotated more than once: reading {plain(part.name)} first", again=True)
        self.more = True
        while self.more:
            yield from self._read(stream)
        for block in stream.cutter.finish():
            yield self._item(block)
        self._known.release(stream)

    def _read_late(self, stream: Stream, until: float) -> Iterator[Item]:
        """Yield what a slow writer still adds to a file after it was rotated."""
        try:
            copied = self._may_be_copy(stream)
            data = b"" if copied else stream.read()[0]
        except OSError:
            data, until = b"", 0.0
        late = replace(self.log, name=f"{self.log.name} (rotated)")
        for block in stream.cutter.feed(data):
            yield late, block
        self._late = [late for late in self._late if late[0] is not stream]
        if data:
            self._late.append((stream, self._clock() + LINGER_S))
        elif self._clock() < until:
            self._late.append((stream, until))
        else:
            for block in stream.cutter.finish():
                yield late, block
            self._known.release(stream)

    def _may_be_copy(self, late: Stream) -> bool:
        """True for an old file that was empty and holds a copy of the new one by now, or may become one."""
        known = None if self.stream is None else self.stream.print
        return (
            not late.print.position and known is not None and known.position > 0 and known.may_fit(late.fd) is not False
        )

    def _unreadable(self, error: OSError) -> Iterator[Item]:
        """Too many open files are one fault, not one of each log."""
        text = f"cannot be read ({error.strerror}): retrying"
        if error.errno == EMFILE:
            text = "not followed, as all others behind it: too many open files (raise the limit of ulimit -n)"
            if self._known.crowded:
                return
            self._known.crowded = True
        yield from self._notices("lost", text)

    def _item(self, item: Block | Notice) -> Item:
        if isinstance(item, Notice):
            item = replace(item, text=f"{self.log.name}: {item.text}")
        return self.log, item

    def _notices(self, kind: NoticeKind, text: str, *, again: bool = False) -> list[Item]:
        """A notice; the last one is not repeated, unless `again`."""
        if text == self._last_notice and not again:
            return []
        self._last_notice = text
        return [self._item(Notice(text, kind))]


def _why_gone(path: Path) -> str:
    try:
        path.stat()
    except FileNotFoundError:
        pass
    except OSError as error:
        return f"cannot be reached ({error.strerror}): retrying"
    return "deleted or renamed: waiting for a new file"


def _state(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None
