"""Times of one block: the stamp of each record, and the records for its gaps, first and last line."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from perfmon.core import ESCAPES, HEAD, SILENCE, TAIL, Record, Stamp

from ..formats.timestamps import HeaderReader
from .gaps import LATE_LINES, MIN_GAP_S, Dated, DatedLines, elapsed, is_behind

_RESTARTED_S = 600.0
"""A monotonic clock that falls back by more has restarted."""
_LOOK_BACK = 16
"""Lines at the end of a block among which one later than the last is searched for."""
_MAX_TEXT = 400
"""Characters kept of the line before a gap."""


class LineCount:
    """Lines of a block that stand before a position; quick for positions near the edges or the last one."""

    def __init__(self, data: bytes, newlines: int) -> None:
        self._data = data
        self._marks = [(0, 0), (len(data), newlines)]
        self.lines = newlines + (data != b"" and not data.endswith((b"\n", b"\r")))
        """Lines in all; the last one may have no newline, but frames of an unfinished bar are no line yet."""

    def before(self, position: int) -> int:
        """Lines before the one that holds a position."""
        mark, count = min(self._marks, key=lambda mark: abs(mark[0] - position))
        low, high = sorted((mark, position))
        between = self._data.count(b"\n", low, high)
        count += between if mark == low else -between
        self._marks[2:] = [(position, count)]
        return count


class BlockTimes:
    """Dates the records of a block, in their order; afterwards the gaps between all of its lines."""

    def __init__(
        self, data: bytes, offset: int, first_line: int, headers: HeaderReader, dated: list[Dated], newlines: int
    ) -> None:
        self._data, self._offset, self._first_line = data, offset, first_line
        self._dated = dated
        """Lines of which the stamp is known, among them each at which it changes from one record to the next."""
        self._lines = DatedLines(data, headers)
        self.count = LineCount(data, newlines)
        self._latest: Stamp | None = None
        """Stamp of the last dated line up to `_dated_until`."""
        self._dated_until = 0
        self.mono: float | None = None
        """Monotonic seconds of the last record that had them: in a log without dates, of those behind it too."""
        self._ticks: list[tuple[int, int, float, str]] = []
        """First and last line with monotonic seconds alone: number, begin, seconds, text."""
        self._furthest: tuple[int, float, str] | None = None
        """The one with the most seconds among the last of these: number, seconds, text."""
        self.tick_gaps: list[Record] = []
        """Gaps between lines with monotonic seconds alone."""
        self._gap_ends: set[int] = set()
        """Begins of the lines that ended a gap."""

    def advance(self, until: int, stamp: Stamp | None) -> None:
        """Take the stamp of lines up to `until` that were read by templates."""
        if until > self._dated_until:
            self._dated_until, self._latest = until, stamp

    def date(self, begin: int, end: int, stamp: Stamp | None) -> Stamp | None:
        """The stamp of a record, or that of the last dated line before it; None when that is in an earlier block."""
        found = self._lines.before(self._dated_until, begin) if stamp is None else (begin, stamp)
        if found is not None and found[1] != self._latest:
            self._dated.append(found)
            self._latest = found[1]
        self._dated_until = end
        return self._latest

    def date_row(self, begin: int, stamp: Stamp) -> None:
        """Take the stamp of a row of a table."""
        self._dated.append((begin, stamp))

    def tick(self, line: int, begin: int, stamp: Stamp | None, mono: float, text: str) -> None:
        """Take the monotonic seconds of a record."""
        self.mono = mono
        if stamp is not None:
            return
        text = text[:_MAX_TEXT]
        self._ticks[1:] = [(line, begin, mono, text)]
        if self._furthest is not None:
            at_line, latest, last = self._furthest
            if 0 < latest - mono < _RESTARTED_S and line - at_line <= LATE_LINES:
                return  # a late line
            if mono - latest >= MIN_GAP_S:
                gap = [(None, latest), (line, text)]
                self.tick_gaps.append((SILENCE, at_line, self._offset + begin, None, mono, gap, last))
        self._furthest = (line, mono, text)

    def records(self) -> list[Record]:
        """Records for the first and the last dated line, and for each gap between."""
        anchors = [next(same) for _, same in groupby(sorted(self._dated), key=itemgetter(1))]
        tail = self._lines.before(anchors[-1][0] if anchors else 0, len(self._data))
        if tail is not None:
            anchors.append(tail)
        first = (self._lines.after(0, anchors[0][0]) or anchors[0]) if anchors else None
        if first is None:
            return [
                (kind, line, self._offset + begin, None, mono, [], text)
                for kind, (line, begin, mono, text) in zip(
                    (HEAD, TAIL), self._ticks[:1] + self._ticks[-1:], strict=False
                )
            ]
        records = [self._record(HEAD, first, [])]
        if first[0] < anchors[0][0]:
            anchors.insert(0, first)
        before = last = first
        for anchor in anchors:
            if anchor is not tail and _is_near(before, anchor):  # nearly all
                before = last = anchor
                continue
            last = until = anchor
            if is_behind(anchor[1], before[1]):
                if self._lines.is_late(anchor, before):
                    # Or the clock was set back, and has caught up: what compares it with others needs to know.
                    records.append(self._record(SILENCE, anchor, [(anchor[1], None)]))
                    continue
                until = self._lines.latest(anchor, LATE_LINES)
            elif anchor is tail:
                until = self._lines.latest(anchor, _LOOK_BACK)
            for low, high in () if _is_near(before, until) else self._gaps(anchors, before, until):
                if low[1][0] != high[1][0]:  # the clock must know both neighbours to place them
                    records.append(self._record(SILENCE, low, [(low[1], None)]))
                ended = (self._number(high[0]), self._text(high[0]))
                records.append(self._record(SILENCE, high, [(low[1], None), ended], low[0]))
            before = until if is_behind(anchor[1], until[1]) and anchor is tail else anchor
        later = [(before[1], self._number(before[0]), self._text(before[0]))] if is_behind(last[1], before[1]) else []
        records.append(self._record(TAIL, last, later))
        return records

    def _gaps(self, anchors: Sequence[Dated], before: Dated, until: Dated) -> list[tuple[Dated, Dated]]:
        """The gaps between two dated lines, and those before them that the first one hid: it came late, behind a line
        that was not looked at."""
        found = self._lines.gaps(before, until)
        while elapsed(before[1], until[1]) >= MIN_GAP_S:
            ahead = self._lines.latest(before, LATE_LINES)
            at = bisect_left(anchors, ahead[0], key=itemgetter(0))
            if not at or not is_behind(before[1], ahead[1]):
                break
            before, until = anchors[at - 1], ahead
            found = self._lines.gaps(before, until) + found
        found = [gap for gap in found if gap[1][0] not in self._gap_ends]
        self._gap_ends.update(high[0] for _, high in found)
        return found

    def _record(self, kind: int, dated: Dated, values: list[tuple[Any, ...]], line_at: int | None = None) -> Record:
        """A record with the time of a line, and with the number and text of it or of the line at `line_at`."""
        begin, stamp = dated
        position = begin if line_at is None else line_at
        return (kind, self._number(position), self._offset + begin, stamp, None, values, self._text(position))

    def _number(self, position: int) -> int:
        return self._first_line + self.count.before(position)

    def _text(self, position: int) -> str:
        """The line of a position, of a progress bar its last frame."""
        begin, end = self._data.rfind(b"\n", 0, position) + 1, self._data.find(b"\n", position)
        raw = self._data[begin : len(self._data) if end < 0 else end].rstrip(b"\r")
        begin = raw.rfind(b"\r") + 1
        return ESCAPES.sub("", raw[begin : begin + _MAX_TEXT].decode("utf-8", "replace"))


def _is_near(before: Dated, after: Dated) -> bool:
    """True for a line that follows another without a gap, by the same kind of stamp."""
    return before[1][0] == after[1][0] and 0.0 <= after[1][1] - before[1][1] < MIN_GAP_S
