"""Scanning one block of lines: records, repeats, weight updates, gaps."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from perfmon.core import ESCAPES, HEAD, LEG, SAME, SILENCE, TAIL, Record, Stamp, says_only_that

from ..formats.compiled import CompiledPattern
from ..formats.timestamps import any_stamp
from .gaps import BOM, LATE_LINES, QUIET_S, Dated, Lines, elapsed, is_behind
from .json_envelope import json_begin, opened_envelope, record_stamp
from .search import LineCount, joined
from .tables import Columns, row_of
from .update_templates import Cells, HeldLeg, cells

if TYPE_CHECKING:
    from .scanner import Scanner


_MAX_TEXT = 65536
_RESTARTED_S = 600.0
"""A monotonic clock that falls back by more began anew."""
_LOOKED_BACK = 16
"""So many lines at the end of a block are looked at for one that is later than the last."""
_SHOWN = 400
"""Of the line before a silence so much is kept."""
_COLOURS = re.compile(rb"\x1b\[[\d;]*m")
_offset_of = itemgetter(2)


@dataclass(slots=True)
class ScanResult:
    """What a block holds."""

    records: list[Record]
    lines: int
    """Lines that end in this block."""
    size: int
    recognised: dict[int, int] = field(default_factory=dict)
    """Lines by pattern index."""
    problems: list[tuple[int, str]] = field(default_factory=list)
    """(line, what) for values that cannot be meant."""


@dataclass(slots=True)
class _Run:
    """Lines of one second that say the same, one after the other."""

    key: object
    said: list[tuple[object, ...]]
    record: list[tuple[object, ...]]
    """Observations of the first one, which count the others."""
    line: int
    count: int
    """Others so far."""
    last: int
    """Line number of the last of them."""


class Block:
    """The state of scanning one block."""

    def __init__(self, scanner: Scanner, data: bytes, offset: int, line: int) -> None:
        self.scanner, self.data, self.offset, self.line = scanner, data, offset, line
        self.first_line = line
        self.records: list[Record] = []
        self.problems: list[tuple[int, str]] = []
        self.recognised: dict[int, int] = {}
        self.legs: list[HeldLeg] = []
        self.lines = Lines(data, scanner.headers)
        self.told: set[int] = set()
        """Where the lines begin that ended a silence."""
        self.known: Stamp | None = None
        self.known_until = 0
        self.known_mono: float | None = None
        self.ticks: list[tuple[int, int, float, str]] = []
        """First and last line that only `t=` dates: number, offset, monotonic seconds, text."""
        self.furthest: tuple[int, float, str] | None = None
        """The one among the last of these that is the latest: number, monotonic seconds, text."""
        self.found = scanner.finder.find(data, scanner.headers.clocks_seen)
        self.recognised |= self.found.left_out
        self.same: _Run | None = None
        """The lines of one second that say the same, of which the last record is the first."""
        self.dated: list[Dated] = self.found.dated
        self.count = LineCount(data, self.found.newlines)

    def scan(self, columns: Columns | None = None) -> ScanResult:
        """What the block holds; `columns` are those of the table that the log is."""
        scanner, found = self.scanner, self.found
        first_line, first = self.first_line, 0
        if found.taken:
            self.recognised[scanner.leg_pattern] = found.taken
        end = 0
        sought: list[tuple[int, int]] = []
        passed = True
        text = ""
        stamp: Stamp | None = None
        for at, to, needle, begin, stop, before, told, known_until, known, seen, dated, same in found.hits:
            if at < end:
                sought.append((at, needle))
                continue
            if not passed:
                self._recognise(text, stamp, first, end, sought)
            self.line = first_line + before
            if told is None or begin < end:  # it may be a frame of a progress bar: those share a line
                first, end = self._between_returns(max(begin, end), stop, at, to)
                passed = end < stop and self._drawn_again(first, end, stop)
                if passed:
                    continue
                text, stamp = self._record(first, end, at)
            else:
                passed, first, end, text = same is not None, begin, stop, told
                stamp = dated if seen else scanner.headers.read(text)
            if known_until > self.known_until:  # a line of a known shape stands before this one
                self.known_until, self.known = known_until, known
            if same is not None:
                self._repeated(*same, text, stamp, begin, stop)
            sought = [(at, needle)]
        if not passed:
            self._recognise(text, stamp, first, end, sought)
        self.line = first_line
        if columns is not None and scanner.row is not None:
            self._rows(columns, scanner.row)
        return self._finish()

    def _rows(self, columns: Columns, compiled: CompiledPattern) -> None:
        """Reads the rows of the table that the log is, but for lines that a pattern has recognised."""
        self._end_run()
        begin = 0
        read = {offset: stamp for _, _, offset, stamp, *_ in self.records}
        known: Stamp | None = None
        for number, raw in enumerate(self.data.split(b"\n")):
            offset, size = self.offset + begin, len(raw)
            if offset in read:
                known = read[offset] or known
            elif 0 < size < _MAX_TEXT and b"\r" not in raw[:-1]:
                text, stamp = self._record(begin, begin + size, begin)
                row = row_of(columns, text, self.scanner.message)
                if row is not None and row.clock:
                    stamp = any_stamp(row.clock) or stamp
                if stamp is not None:
                    known = stamp
                    self.dated.append((begin, stamp))
                if row is not None:
                    problems: list[str] = []
                    told = compiled.observe(row.values, problems)
                    self.problems.extend((self.first_line + number, problem) for problem in problems)
                    self.recognised[compiled.index] = self.recognised.get(compiled.index, 0) + 1
                    self.records.append((compiled.index, self.first_line + number, offset, known, None, told, text))
            begin += size + 1

    def _repeated(self, index: int, group: int, text: str, stamp: Stamp | None, begin: int, end: int) -> None:
        """Takes a line that says no more than others did of which the scanner remembers how they end."""
        self.recognised[index] = self.recognised.get(index, 0) + 1
        stamp = self._dated(begin, stamp)
        mono = self.known_mono if stamp is None else None
        self.known_until = end
        said = [*self.scanner.said[group]]
        if not self._goes_on(begin, stamp, mono, said):
            self.records.append((index, self.line, self.offset + begin, stamp, mono, said, text))

    def _recognise(self, text: str, stamp: Stamp | None, begin: int, end: int, sought: list[tuple[int, int]]) -> None:
        """Reads a record with the first of the patterns, in the order of packs, that it is of; `sought` are position
        and number of the needles that were found in it.

        What stands behind the frame of a progress bar, without a newline between, is a record of its own.
        """
        scanner = self.scanner
        patterns = scanner.patterns
        asked = scanner.asked.of(sought)
        if not scanner.frames.isdisjoint(asked):
            stop = next((at for i in asked if i in scanner.frames and (at := patterns[i].end(text)) is not None), None)
            if stop is not None and text[stop:].strip():
                split = begin + min(len(text[:stop].encode()), end - begin - 1)
                # The needles that stand before the split are asked for again behind it: colours may have moved it.
                self._ask(asked, text[:stop], stamp, begin, split, sought)
                rest = text[stop:]
                self._recognise(rest, scanner.headers.read(rest) or stamp, split, end, sought)
                return
        self._ask(asked, text, stamp, begin, end, sought)

    def _ask(
        self, asked: tuple[int, ...], text: str, stamp: Stamp | None, begin: int, end: int,
        sought: list[tuple[int, int]],
    ) -> None:  # fmt: skip
        for index in asked:
            compiled = self.scanner.patterns[index]
            if not compiled.may_fit(text):
                continue
            at = sought[0][0]
            if index in self.scanner.legs:  # the shape of its line is learned from its own needle on
                at = next(at for at, needle in sought if index in self.scanner.asked[needle])
            if self._match(compiled, text, stamp, begin, end, at):
                return

    def _between_returns(self, begin: int, end: int, at: int, to: int) -> tuple[int, int]:
        """Frames of a progress bar share a line: the frame around the hit."""
        begin = max(begin, self.data.rfind(b"\r", begin, at) + 1)
        stop = self.data.find(b"\r", to, end)
        return begin, end if stop < 0 else stop

    def _drawn_again(self, begin: int, end: int, stop: int) -> bool:
        """Whether a frame of a progress bar is followed by one of the same bar and the same ten seconds of its clock,
        which says all that this one does: bars are drawn ten times a second. The first that shows a count is kept:
        when a count stopped is what matters."""
        data = self.data
        clock = data.rfind(b" [", begin, end)
        until = data.find(b"<", clock, end) + 1
        if (
            clock < 0
            or not until
            or b"%" not in data[begin:end]
            or data[clock:end].rstrip().find(b"]") != len(data[clock:end].rstrip()) - 1
        ):
            return False
        following = data.find(b"\r", end + 1, stop)
        again = data.find(data[clock : until - len(b"0<")], end + 1, stop if following < 0 else following)
        name = data[begin : data.find(b"%", begin, end)][:-3]
        return again >= 0 and data.startswith(name, end + 1) and not data.startswith(data[begin:clock], end + 1)

    def _record(self, begin: int, end: int, at: int) -> tuple[str, Stamp | None]:
        """Decoded text and stamp of the record that spans begin..end."""
        if end - begin > _MAX_TEXT:
            begin = max(begin, at - _MAX_TEXT // 2)
            end = min(end, begin + _MAX_TEXT)
        raw = self.data[begin:end]
        if b"\x1b" in raw:
            bare = _COLOURS.sub(b"", raw)
            raw = raw if b"\x1b" in bare else bare  # a colour may be what ends another sequence
        text = raw.decode("utf-8", "replace")
        if "\x1b" in text:
            text = ESCAPES.sub("", text)
        if "\x00" in text:
            text = text.replace("\x00", "")
        text = text.removeprefix(BOM)
        return text, self.scanner.headers.read(text)

    def _match(self, compiled: CompiledPattern, text: str, stamp: Stamp | None, begin: int, end: int, at: int) -> bool:
        """Reads the line with one pattern; False when it is not of this kind."""
        pattern, inner, own = compiled.pattern, text, stamp
        opening = json_begin(text) if "{" in text else -1
        opened = None
        if opening >= 0:
            inner, own = text[opening:], None
            opened = opened_envelope(inner)
            if opened is not None and (pattern.style != "json" or opened[0].startswith("{")):
                inner = opened[0]
            else:
                opened = None
        named: dict[str, str] = {}
        if pattern.anchored:
            inner, named = self.scanner.headers.message(text if opened is None else inner)
        values = compiled.fields(inner)
        if values is None:
            return False
        if opening >= 0:
            stamp = record_stamp(text, opening, self.scanner.headers)
        elif stamp is None:
            stamp = self.scanner.headers.field(text)
        if named:
            values = {**named, **{name: value for name, value in values.items() if value is not None}}
        index = compiled.index
        self.recognised[index] = self.recognised.get(index, 0) + 1
        problems: list[str] = []
        mono = compiled.mono(values, problems) if pattern.mono else None
        observations = compiled.observe(values, problems)
        if problems:
            self.problems.extend((self.line, problem) for problem in problems)
        if stamp is None and pattern.clock:
            stamp = compiled.clock(values)
        inherits = stamp is None
        stamp = self._dated(begin, stamp)
        mono = self._ticked(begin, stamp, mono, text)
        self.known_until = end
        if index in self.scanner.legs:
            self._leg(index, observations, mono, stamp, begin, end, at, own, inherits)
            observations = [told for told in observations if told[0] != LEG]
        if observations or index not in self.scanner.legs:
            if says_only_that(observations) and not problems:
                if self._goes_on(begin, stamp, mono, observations):
                    return True
                if compiled.repeats:
                    self.scanner.repeat(compiled, text, self.data, begin, end, at, observations)
            else:
                self._end_run()
            self.records.append((index, self.line, self.offset + begin, stamp, mono, observations, text))
        return True

    def _goes_on(self, begin: int, stamp: Stamp | None, mono: float | None, said: list[tuple[object, ...]]) -> bool:
        """Whether a line says what the one before said in the same second; else a run of such lines begins."""
        count, before = self.found.repeats.get(begin, (0, 0))
        last = self.first_line + before if count else self.line
        key = stamp and (stamp[0], int(stamp[1])), mono
        run = self.same
        if run is not None and run.key == key and run.said == said:
            run.count, run.last = run.count + 1 + count, last
            return True
        self._end_run()
        self.same = _Run(key, [*said], said, self.line, count, last)
        return False

    def _end_run(self) -> None:
        """The record of the first line of a run says how many others there were."""
        run, self.same = self.same, None
        if run is not None and run.count:
            run.record.append((SAME, run.count, run.last - run.line))

    def _leg(
        self, index: int, observations: list[tuple[object, ...]], mono: float | None, stamp: Stamp | None,
        begin: int, end: int, at: int, own: Stamp | None, inherits: bool,
    ) -> None:  # fmt: skip
        """Keeps a leg until the block's are joined, and learns the shape and the head of its line."""
        for _, trace, leg, fields in (told for told in observations if told[0] == LEG):
            trace = trace or f"byte {self.offset + begin}"  # noqa: PLW2901 - the same line of a copied log has the same
            told: Cells = cells(leg, fields, mono)  # type: ignore[arg-type]  # LEG observations
            held = (*stamp, True) if inherits and stamp is not None and str(leg).startswith("client.") else stamp
            self.legs.append((begin, end, self.line, held, str(trace), told, index))
            if own is not None and stamp is own and index == self.scanner.leg_pattern:
                self.scanner.learn(self.data[at:end], str(trace), str(leg))

    def _dated(self, begin: int, stamp: Stamp | None) -> Stamp | None:
        """The stamp of a line, or that of the last dated line before it; None when that stands in an earlier block."""
        found = self.lines.before(self.known_until, begin) if stamp is None else (begin, stamp)
        if found is not None and found[1] != self.known:
            self.dated.append(found)
            self.known = found[1]
        return self.known

    def _ticked(self, begin: int, stamp: Stamp | None, mono: float | None, text: str) -> float | None:
        """Monotonic seconds of a line; in a log without dates those of the last line that has them count on."""
        if mono is None:
            return self.known_mono if stamp is None else None
        self.known_mono = mono
        if stamp is None:
            self.ticks[1:] = [(self.line, begin, mono, text[:_SHOWN])]
            if self.furthest is not None:
                line, latest, last = self.furthest
                if 0 < latest - mono < _RESTARTED_S and self.line - line <= LATE_LINES:
                    return mono  # it came late
                if mono - latest >= QUIET_S:
                    told: list[tuple[object, ...]] = [(None, latest), (self.line,)]
                    self.records.append((SILENCE, line, self.offset + begin, None, mono, told, last))
            self.furthest = (self.line, mono, text[:_SHOWN])
        return mono

    def _finish(self) -> ScanResult:
        data = self.data
        size = len(data)
        self._end_run()
        self._tell_silences()
        self.records += self._updates()
        self.records.sort(key=_offset_of)
        return ScanResult(self.records, self.count.lines, size, self.recognised, self.problems)

    def _updates(self) -> list[Record]:
        found, scanner = self.found, self.scanner
        if not self.legs:
            return found.join(self.line, self.offset, scanner.leg_pattern, scanner.calm)
        legs = [*found.legs(self.line, scanner.leg_pattern), *self.legs]
        return joined(legs, self.data, self.offset, scanner.calm)

    def _tell_silences(self) -> None:
        """Adds records for the first and last dated line and for each silence between."""
        anchors = [next(same) for _, same in groupby(sorted(self.dated), key=itemgetter(1))]
        tail = self.lines.before(anchors[-1][0] if anchors else 0, len(self.data))
        if tail is not None:
            anchors.append(tail)
        first = (self.lines.after(0, anchors[0][0]) or anchors[0]) if anchors else None
        if first is None:
            for kind, (line, begin, mono, text) in zip((HEAD, TAIL), (self.ticks[:1] + self.ticks[-1:]), strict=False):
                self.records.append((kind, line, self.offset + begin, None, mono, [], text))
            return
        self._tell(HEAD, first, [])
        if first[0] < anchors[0][0]:
            anchors.insert(0, first)
        before = last = first
        for anchor in anchors:
            if anchor is not tail and anchor[1][0] == before[1][0] and 0.0 <= anchor[1][1] - before[1][1] < QUIET_S:
                before = last = anchor  # nearly all
                continue
            last = until = anchor
            if is_behind(anchor[1], before[1]):
                if self.lines.is_late(anchor, before):
                    # Or the clock was set back, and has caught up: who compares it with others must hear of it.
                    self._tell(SILENCE, anchor, [(anchor[1], None)])
                    continue
                until = self.lines.latest(anchor, LATE_LINES)
            elif anchor is tail:
                until = self.lines.latest(anchor, _LOOKED_BACK)
            near = until[1][0] == before[1][0] and 0.0 <= until[1][1] - before[1][1] < QUIET_S
            for low, high in () if near else self._silences(anchors, before, until):
                if low[1][0] != high[1][0]:  # the clock must know both neighbours to say how they lie to each other
                    self._tell(SILENCE, low, [(low[1], None)])
                self._tell(SILENCE, high, [(low[1], None), (self._line_at(high[0]),)], low[0])
            before = until if is_behind(anchor[1], until[1]) and anchor is tail else anchor
        further: list[tuple[object, ...]] = []
        if is_behind(last[1], before[1]):
            further.append((before[1], self._line_at(before[0]), self._line_text(before[0])))
        self._tell(TAIL, last, further)

    def _silences(self, anchors: Sequence[Dated], before: Dated, until: Dated) -> list[tuple[Dated, Dated]]:
        """The silences between two dated lines, and those before them that the first one hid: it came late, behind a
        line that nobody had looked at."""
        found = self.lines.silences(before, until)
        while elapsed(before[1], until[1]) >= QUIET_S:
            ahead = self.lines.latest(before, LATE_LINES)
            at = bisect_left(anchors, ahead[0], key=itemgetter(0))
            if not at or not is_behind(before[1], ahead[1]):
                break
            before, until = anchors[at - 1], ahead
            found = self.lines.silences(before, until) + found
        found = [silence for silence in found if silence[1][0] not in self.told]
        self.told.update(high[0] for _, high in found)
        return found

    def _tell(self, kind: int, dated: Dated, told: list[tuple[object, ...]], line_at: int | None = None) -> None:
        """A record that says when a line was printed; with the number and text of the line at `line_at`."""
        position = dated[0] if line_at is None else line_at
        self.records.append(
            (kind, self._line_at(position), self.offset + dated[0], dated[1], None, told, self._line_text(position))
        )

    def _line_at(self, position: int) -> int:
        """Line number of a position."""
        return self.line + self.count.before(position)

    def _line_text(self, position: int) -> str:
        """Of a progress bar its last frame."""
        begin, end = self.data.rfind(b"\n", 0, position) + 1, self.data.find(b"\n", position)
        raw = self.data[begin : len(self.data) if end < 0 else end].rstrip(b"\r")
        begin = raw.rfind(b"\r") + 1
        return ESCAPES.sub("", raw[begin : begin + _SHOWN].decode("utf-8", "replace"))
