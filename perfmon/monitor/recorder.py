"""The recording of a monitored run."""

from __future__ import annotations

from collections.abc import Iterable, MutableSequence, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from perfmon.core import Block, Notice, PerfmonError, format_bytes
from perfmon.viewmodel import Recording

if TYPE_CHECKING:
    from perfmon.recording import RecordingWriter

_BACK_S = 1.0
"""Only a rewound replay goes back this far: all of it would be recorded again."""


class Past(NamedTuple):
    """The kept lines of the logs."""

    blocks: Sequence[tuple[str, Block]]
    """Lines, each with the name of their log."""
    changed: Iterable[tuple[str, float]]
    """Time of the last write to each log, in seconds since 1970."""


class Recorder:
    """At most one recording at a time; its result becomes a notice."""

    def __init__(self, notices: MutableSequence[str]) -> None:
        self._notices = notices
        self._writer: RecordingWriter | None = None
        self._since = self._last = 0.0
        self._failed: Recording | None = None
        self._loading = ""
        """A log, while that is read which was there already."""

    def toggle(self, path: str, logs: Iterable[str], clock: float, past: Past | None = None) -> None:
        """Stop the current recording, or start one under a name that is not taken."""
        if self._writer is not None:
            self.end()
            return
        file = Path(path)
        others = (file.with_stem(f"{file.stem}-{number}") for number in range(2, 1000))
        self.begin(str(next((one for one in (file, *others) if not one.exists()), file)), logs, clock, past)

    def begin(self, path: str, logs: Iterable[str], clock: float, past: Past | None = None) -> None:
        """Start a recording of these logs, with the kept lines; the current one ends."""
        from perfmon.recording import RecordingWriter

        self.end()
        self._failed = None
        try:
            self._writer = RecordingWriter(Path(path), list(logs))
        except PerfmonError as error:
            self._notices.append(str(error))
            return
        self._since = self._last = clock
        self._write_past(self._writer, past or Past([], []))
        self._notices.append(f"recording to {path}")

    def _write_past(self, writer: RecordingWriter, past: Past) -> None:
        """Write the kept lines, with the marks that a replay applies."""
        if past.blocks or self._loading:
            writer.write(0.0, self._loading or past.blocks[0][0], Notice("", "history"))
        for log, block in past.blocks:
            writer.write(0.0, log, block)
        if past.blocks and not self._loading:
            for log, changed in past.changed:
                writer.write(0.0, log, Notice(repr(changed), "written"))
            writer.write(0.0, past.blocks[-1][0], Notice("", "present"))

    def take(self, log: str, item: Block | Notice, clock: float) -> None:
        """The next of what a log gives."""
        if isinstance(item, Notice) and item.kind in ("history", "present"):
            self._loading = log if item.kind == "history" else ""
        if self._writer is None:
            return
        if clock < self._last - _BACK_S:
            self._notices.append("the replay was rewound: recording stopped")
            self.end()
            return
        self._last = clock
        self._writer.write(clock - self._since, log, item)

    def keep_up(self) -> None:
        """Write what is due; a failed recording ends with a notice."""
        writer = self._writer
        if writer is None:
            return
        writer.flush_due()
        if writer.failed is not None:
            self._notices.append(writer.failed)
            writer.close()
            self._failed = Recording(str(writer.path), writer.bytes_written, 0.0, writer.failed)
            self._writer = None

    def end(self) -> None:
        """Stop the recording, if there is one; a failed one is not shown any more."""
        self._failed = None
        writer = self._writer
        if writer is not None:
            writer.close()
            recorded = f"recorded {format_bytes(writer.bytes_written)} to {writer.path}"
            self._notices.append(writer.failed or recorded)
            self._writer = None

    def state(self, clock: float) -> Recording | None:
        """State of the recording for the screen."""
        writer = self._writer
        if writer is None:
            return self._failed
        return Recording(str(writer.path), writer.bytes_written, clock - self._since, writer.failed)
