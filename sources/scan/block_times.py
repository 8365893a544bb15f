"""Times of one block: the stamp of each record, the silences between neighbouring dated lines, the records for them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import groupby
from math import inf
from operator import itemgetter
from typing import Any

from perfmon.core import DAYTIME, EPOCH, ESCAPES, HEAD, LOCAL, SILENCE, TAIL, YEARLESS, Record, Stamp

from ..formats.timestamps import HeaderReader
from .json_envelope import json_begin, read_line

MIN_GAP_S = 10.0
"""Gaps are recorded from this length on."""

LATE_LINES = 200
"""So many lines late a line may come: until then what stands before it shows how far the log was."""

BOM = "\ufeff"
"""Some programs begin their files with this mark: it is no part of the first line."""
_HEAD = 400
_MAX_JSON = 65536
COARSE_S = 1.5
_LATE_S = 6 * 3600.0
_DATED = {EPOCH, LOCAL}
_CLEAR_S = 21_000.0
"""Two times without a date that lie less apart have no midnight between them."""
_ROUNDED = 1e-3
"""Stamps that lie nearer to a limit are compared in the general way."""
_NONE = (-2, inf, -inf)
"""No stamp is of this kind."""
_DAY_S, _ZONE_S = 86400.0, 1800.0
_PERIODS = {DAYTIME: 86400.0, YEARLESS: 366 * 86400.0}
_BACK_S = {DAYTIME: 6 * 3600.0, YEARLESS: 183 * 86400.0}
"""A time that lies further back is one of the next day, or year: a run that was started again the next morning."""
_RESTARTED_S = 600.0
"""A monotonic clock that falls back by more has restarted."""
_LOOK_BACK = 16
"""Lines at the end of a block among which one later than the last is searched for."""
_MAX_TEXT = 400
"""Characters kept of the line before a gap."""

Dated = tuple[int, Stamp]
"""The begin of a dated line, and its stamp."""


def elapsed(before: Stamp, after: Stamp) -> float:
    """Seconds from one stamp to the next, over midnight or New Year where no date or year is known.

    Endless across other kinds: only the log's clock can place them. Where a log has both, a time without a date is
    taken for the nearest of those with one, and one without an offset for that of UTC where the two are near, else of a
    zone.
    """
    seconds = after[1] - before[1]
    if before[0] != after[0]:
        return _across(seconds, {before[0], after[0]})
    period = _PERIODS.get(before[0])
    return seconds + period if period is not None and seconds < -_BACK_S[before[0]] else seconds


def _across(seconds: float, kinds: set[int]) -> float:
    if kinds == {DAYTIME, LOCAL}:
        back = _BACK_S[DAYTIME]
        return (seconds + back) % _DAY_S - back
    return seconds if kinds == _DATED and abs(seconds) < _ZONE_S else inf


def is_behind(stamp: Stamp, latest: Stamp) -> bool:
    """True for a line that was printed before one that it stands behind: some clocks have seconds only."""
    return COARSE_S < elapsed(stamp, latest) <= _LATE_S


class DatedLines:
    """The dated lines of a block."""

    def __init__(self, data: bytes, headers: HeaderReader) -> None:
        self._data, self._headers = data, headers
        self._last_look: tuple[int, Dated, int] | None = None
        """The line that was looked back from last, the latest one that stands before it, and how many lines before."""
        self._caught_up: tuple[Dated, int] | None = None
        """A line that others came late to, and where it was met again."""

    def before(self, low: int, high: int) -> Dated | None:
        """The last dated line that begins in low..high, searched from the end."""
        end = high
        while end > low:
            end = self._skipped(end, low, high, *_NONE)[0]
            if end <= low:
                break
            begin = self._data.rfind(b"\n", low, end - 1) + 1 or low
            stamp = self._stamp_of(begin, end)
            if stamp is not None:
                return begin, stamp
            end = begin
        return None

    def after(self, low: int, high: int) -> Dated | None:
        """The first dated line that begins in low..high."""
        begin = low
        while begin < high:
            begin = self._skipped(begin, high, high, *_NONE)[0]
            if begin >= high:
                break
            end = self._data.find(b"\n", begin, high)
            end = high if end < 0 else end
            stamp = self._stamp_of(begin, end)
            if stamp is not None:
                return begin, stamp
            begin = end + 1
        return None

    def gaps(self, low: Dated, high: Dated) -> list[tuple[Dated, Dated]]:
        """Halves the lines between two dated lines until each silence is held by neighbouring dated lines.

        A line that came late ends and begins none: what counts is how far the log was.
        """
        found: dict[int, tuple[Dated, Dated]] = {}
        pending, looked_at = [(low, high)], {high[0]}
        while pending:
            before, after = pending.pop()
            if after[0] <= before[0] or elapsed(before[1], after[1]) < MIN_GAP_S or self._is_continuous(before, after):
                continue
            middle = self._between(before[0], after[0])
            if middle is not None:
                pending += [(middle, after), (before, middle)]
                continue
            latest = self.latest(before, LATE_LINES)
            if is_behind(after[1], latest[1]) and self.is_late(after, latest):
                continue
            if is_behind(before[1], latest[1]) and not is_behind(after[1], latest[1]):
                if latest[0] > low[0] and latest[0] not in looked_at:  # what the late line had hidden
                    looked_at.add(latest[0])
                    pending.append((low, latest))
                before = latest
            if elapsed(before[1], after[1]) >= MIN_GAP_S:
                found[after[0]] = (before, after)
        return [found[at] for at in sorted(found)]

    def latest(self, line: Dated, most: int) -> Dated:
        """The latest of a line and of the `most` lines before it."""
        latest, away = line, 0
        # Not beyond the line that was looked back from last: what stands before that one is known.
        begin, low = line[0], 0 if self._last_look is None or self._last_look[0] > line[0] else self._last_look[0]
        count = 0
        while begin > low and count < most:
            kind, seconds = latest[1]
            further, passed = self._skipped(
                begin, low, most - count, kind, seconds - _CLEAR_S, seconds + COARSE_S - _ROUNDED
            )
            if passed:
                begin, count = further, count + passed
                continue
            end, begin = begin, self._data.rfind(b"\n", 0, begin - 1) + 1
            count += 1
            stamp = self._stamp_of(begin, end)
            if stamp is not None and is_behind(latest[1], stamp):
                latest, away = (begin, stamp), count
        if self._last_look is not None and begin == self._last_look[0] and begin > 0 and count < most:
            known, further = self._last_look[1:]
            if is_behind(latest[1], known[1]) and count + further <= most:
                latest, away = known, count + further
        self._last_look = (line[0], latest, away)
        return latest

    def is_late(self, line: Dated, latest: Dated) -> bool:
        """True where the log soon goes on where it was before a line that is behind; else its clock was set back."""
        if self._caught_up is not None and self._caught_up[0] == latest and line[0] < self._caught_up[1]:
            return True
        kind, seconds = latest[1]
        behind = kind, seconds - _LATE_S + _ROUNDED, seconds - COARSE_S - _ROUNDED
        begin, left, size = self._data.find(b"\n", line[0]) + 1, LATE_LINES, len(self._data)
        while left > 0 and 0 < begin < size:
            begin, passed = self._skipped(begin, size, left, *behind)
            left -= passed + 1
            if left < 0 or begin >= size:
                break
            stamp = self._stamp_of(begin, self._line_end(begin))
            if stamp is not None and elapsed(stamp, latest[1]) < inf and not is_behind(stamp, latest[1]):
                self._caught_up = (latest, begin)
                return True
            begin = self._data.find(b"\n", begin) + 1
        return False

    def _skipped(self, at: int, bound: int, most: int, kind: int, least: float, greatest: float) -> tuple[int, int]:
        """Passes over whole lines in front of `bound`, or behind it, that have no stamp, or one of a kind that lies
        between two times, as far as that is seen at once: where they end, and how many they are."""
        clocks = self._headers.fast_clocks
        return (at, 0) if clocks is None else clocks.skip(self._data, at, bound, most, kind, least, greatest)

    def _is_continuous(self, low: Dated, high: Dated) -> bool:
        """True where it is clear at once that there is no gap between two dated lines."""
        clocks, kind = self._headers.fast_clocks, low[1][0]
        if clocks is None or kind != high[1][0]:
            return False
        return clocks.is_continuous(self._data, low[0], low[1][1], high[0], high[1][1], kind, MIN_GAP_S, _CLEAR_S)

    def _line_end(self, begin: int) -> int:
        end = self._data.find(b"\n", begin)
        return len(self._data) if end < 0 else end

    def _stamp_of(self, begin: int, end: int) -> Stamp | None:
        clocks = self._headers.fast_clocks
        seen, stamp = (False, None) if clocks is None else clocks.stamp(self._data, begin, end)
        if seen:
            return stamp
        head = self._data[begin : min(end, begin + _HEAD)]
        if not head:
            return None
        text = _clean(head)
        if b"{" not in head:  # nearly all
            return self._headers.read(text) or self._headers.field(text)
        if json_begin(text) >= 0:
            text = _clean(self._data[begin : min(end, begin + _MAX_JSON)])
        return read_line(text, self._headers)

    def _between(self, low: int, high: int) -> Dated | None:
        """A dated line between two lines, near the middle."""
        begin = self._data.find(b"\n", (low + high) // 2, high) + 1
        found = self.after(begin, high) if begin else None
        if found is not None:
            return found
        first = self._data.find(b"\n", low) + 1
        return self.before(first, begin or high) if 0 < first < high else None


def _clean(raw: bytes) -> str:
    """Text of a line, as a scanner reads it."""
    text = unescaped(raw.decode("utf-8", "replace").removeprefix(BOM))
    return ESCAPES.sub("", text) if "\x1b" in text else text


def unescaped(text: str) -> str:
    """Text with the tabs and colours that syslog, and what reads from it, writes as `#011` and `#033`."""
    return text.replace("#011", "\t").replace("#033[", "\x1b[") if "#0" in text else text


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
