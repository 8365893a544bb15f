"""Scanning: from the hits of the search in a block of lines to records, and from readings of pollers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from perfmon.core import ESCAPES, HEAD, LEG, LOCAL, SAME, TAIL, Observation, Record, Stamp, adds_nothing

from ..formats.compiled import CompiledPattern, too_slow
from ..formats.fields import Values, any_stamp
from ..pollers.reading import PolledBlock
from .block_times import BOM, BlockTimes, unescaped
from .json_envelope import json_begin, opened_envelope, record_stamp
from .search import PatternSet
from .tables import Columns, Heading, row_of
from .update_templates import PhaseLine, phase_values, update_records

_MOST_LINES_WITHIN = 500
"""Lines of a message in a JSON record that are read: a traceback has fewer."""
_MOST_FRAMES = 100
"""Frames of progress bars without anything between them that are read of one line."""
_MAX_TEXT = 65536


@dataclass(slots=True)
class ScanResult:
    """The contents of a block."""

    records: list[Record]
    lines: int
    """Lines that end in this block."""
    size: int
    recognised: dict[int, int] = field(default_factory=dict)
    """Lines by pattern index."""
    problems: list[tuple[int, str]] = field(default_factory=list)
    """(line, field and value) for values that cannot be meant."""
    slow: list[tuple[int, str]] = field(default_factory=list)
    """(line, what to do) for patterns of the user's that took too long on that line."""

    def observe(self, compiled: CompiledPattern, values: Values, line: int) -> list[Observation]:
        """Count a line that a pattern recognises; the observations that its values give."""
        index = compiled.index
        problems: list[str] = []
        self.recognised[index] = self.recognised.get(index, 0) + 1
        observations = compiled.observe(values, problems)
        if problems:
            self.problems += [(line, problem) for problem in problems]
        return observations


@dataclass(slots=True)
class _Text:
    """A record of the log that holds needles: a line, or a frame of a progress bar that shares one."""

    line: int
    begin: int
    end: int
    text: str
    """Without escape sequences."""
    stamp: Stamp | None
    needles: list[tuple[int, int]]
    """Position and number of each."""


@dataclass(slots=True)
class _Repeats:
    """Records of one second with the same observations, one after the other, of which only the first is kept."""

    key: object
    observations: list[Observation]
    record: list[Observation]
    """Observations of the first one, to which the count of the others is added."""
    line: int
    count: int
    """Others so far."""
    last: int
    """Line number of the last of them."""


class BlockScanner:
    """Scans one block."""

    def __init__(self, patterns: PatternSet, data: bytes, offset: int, line: int) -> None:
        self._patterns, self._data, self._offset, self._first_line = patterns, data, offset, line
        self._found = found = patterns.search.find(data, patterns.headers.fast_clocks)
        self._times = BlockTimes(data, offset, line, patterns.headers, found.dated, found.newlines)
        self._result = ScanResult([], self._times.count.lines, len(data), dict(found.repeated))
        self._records = self._result.records
        self._phases: list[PhaseLine] = found.phases(line, patterns.template_pattern)
        """Lines of weight updates, joined at the end."""
        if self._phases:
            self._result.recognised[patterns.template_pattern] = len(self._phases)
        self._repeat_counts = found.repeats
        self._repeats: _Repeats | None = None

    def scan(self, columns: Columns | None = None) -> ScanResult:
        """The contents of the block; `columns` are those of the table that the log is."""
        self._read_hits()
        if columns is not None and self._patterns.row_pattern is not None:
            self._end_repeats()
            self._read_rows(columns, self._patterns.row_pattern)
        self._end_repeats()
        gaps = self._times.records()
        updates = update_records(self._phases, self._data, self._offset, self._patterns.limits)
        self._records[:] = sorted([*self._times.tick_gaps, *self._records, *gaps, *updates], key=itemgetter(2))
        while slow := self._patterns.headers.slow:
            self._result.slow.append((self._first_line, too_slow(slow.pop(), "header")))
        return self._result

    def _read_hits(self) -> None:
        """Gather the hits of each record, then read it."""
        headers, times = self._patterns.headers, self._times
        record: _Text | None = None
        end = advanced = 0
        for at, to, needle, begin, stop, before, text, read_until, read_stamp, dated, stamp, repeat in self._found.hits:
            if at < end:
                if record is not None:
                    record.needles.append((at, needle))
                continue
            if record is not None:
                self._read(record)
                record = None
            line = self._first_line + before
            if text is None or begin < end or "#0" in text:  # it may be a frame of a progress bar: those share a line
                first, end = self._frame_around(max(begin, end), stop, at, to)
                if end < stop and self._is_redrawn(first, end, stop):
                    continue
                text = self._decode(first, end, at)  # noqa: PLW2901 - a hit has it only where it is cheap
                record = _Text(line, first, end, text, headers.read(text), [(at, needle)])
            else:
                end = stop
                stamp = stamp if dated else headers.read(text)  # noqa: PLW2901 - as the text
            if read_until > advanced:
                times.advance(read_until, read_stamp)
                advanced = read_until
            if repeat is not None:
                self._add_repeated(*repeat, line, begin, end, text, stamp)
            elif record is None:
                record = _Text(line, begin, end, text, stamp, [(at, needle)])
        if record is not None:
            self._read(record)

    def _frame_around(self, begin: int, end: int, at: int, to: int) -> tuple[int, int]:
        """Begin and end of the frame of a progress bar around a hit, in a line that begins and ends there."""
        begin = max(begin, self._data.rfind(b"\r", begin, at) + 1)
        stop = self._data.find(b"\r", to, end)
        return begin, end if stop < 0 else stop

    def _is_redrawn(self, begin: int, end: int, stop: int) -> bool:
        """True for a frame of a progress bar that is followed by one of the same bar and the same ten seconds of its
        clock, with all that this one shows: bars are drawn ten times a second. The first that shows a count is kept:
        when a count stopped is what matters."""
        data = self._data
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

    def _decode(self, begin: int, end: int, at: int) -> str:
        """The text of a record, of a very long one the part around a hit."""
        if end - begin > _MAX_TEXT:
            begin = max(begin, at - _MAX_TEXT // 2)
            end = min(end, begin + _MAX_TEXT)
        text = unescaped(self._data[begin:end].decode("utf-8", "replace"))
        if "\x1b" in text:
            text = ESCAPES.sub("", text)
        return text.replace("\x00", "").removeprefix(BOM)

    def _read(self, record: _Text) -> None:
        """Read a record with the first of the patterns, in the order of packs, that recognises it.

        What stands behind the frame of a progress bar, without a newline between, is a record of its own.
        """
        patterns = self._patterns
        candidates = patterns.by_needle.candidates(record.needles)
        if "\\n" in record.text and self._read_lines_within(record, candidates):
            return
        if not patterns.bar_patterns.isdisjoint(candidates):
            for _ in range(_MOST_FRAMES):
                text = record.text
                spans = (patterns.patterns[index].span(text) for index in candidates if index in patterns.bar_patterns)
                stop = next((span[1] for span in spans if span is not None), None)
                if stop is None or not text[stop:].strip():
                    break
                split = record.begin + min(len(text[:stop].encode()), record.end - record.begin - 1)
                rest, stamp = text[stop:], patterns.headers.read(text[stop:]) or record.stamp
                # Both have all of the needles: colours may have moved the split.
                bar = _Text(record.line, record.begin, split, text[:stop], record.stamp, record.needles)
                self._match_first(candidates, bar)
                record = _Text(record.line, split, record.end, rest, stamp, record.needles)
        self._match_first(candidates, record)

    def _read_lines_within(self, record: _Text, candidates: tuple[int, ...]) -> bool:
        """Read the lines of a message that a JSON record holds, as a traceback; False for other records."""
        begin = json_begin(record.text)
        opened = opened_envelope(record.text[begin:]) if begin >= 0 else None
        if opened is None or "\n" not in opened[0]:
            return False
        stamp = record_stamp(record.text, begin, self._patterns.headers)
        for line in opened[0].splitlines()[:_MOST_LINES_WITHIN]:
            self._match_first(candidates, _Text(record.line, record.begin, record.end, line, stamp, record.needles))
        return True

    def _match_first(self, candidates: tuple[int, ...], record: _Text) -> None:
        for index in candidates:
            compiled = self._patterns.patterns[index]
            if compiled.may_fit(record.text) and self._match(compiled, record):
                return

    def _report_slow(self, compiled: CompiledPattern, line: int) -> None:
        if compiled.is_slow and not compiled.is_reported:
            compiled.is_reported = True
            self._result.slow.append((line, too_slow(compiled.pattern.name)))

    def _match(self, compiled: CompiledPattern, record: _Text) -> bool:
        """Read a record with one pattern; False when it is not of this kind."""
        pattern, headers, text, stamp = compiled.pattern, self._patterns.headers, record.text, record.stamp
        opening = json_begin(text)
        inner = text[max(opening, 0) :]
        opened = opened_envelope(inner) if opening >= 0 else None
        if opened is not None and pattern.style == "json" and not opened[0].startswith("{"):
            opened = None
        inner = inner if opened is None else opened[0]
        prefixed: dict[str, str] = {}
        if pattern.anchored:
            inner, prefixed = headers.message(text if opened is None else inner)
        values = compiled.fields(inner)
        if values is None:
            self._report_slow(compiled, record.line)
            return False
        if opening >= 0:
            stamp = record_stamp(text, opening, headers)
        elif stamp is None:
            stamp = headers.field(text)
        if prefixed:
            values = {**prefixed, **{name: value for name, value in values.items() if value is not None}}
        problems = len(self._result.problems)
        mono = self._mono(compiled, values, record.line) if pattern.mono else None
        observations = self._result.observe(compiled, values, record.line)
        self._report_slow(compiled, record.line)
        if stamp is None and pattern.clock:
            stamp = compiled.clock(values)
        own = stamp
        stamp = self._times.date(record.begin, record.end, own)
        if mono is not None:
            self._times.tick(record.line, record.begin, stamp, mono, text)
        elif stamp is None:
            mono = self._times.mono
        index = compiled.index
        if index in self._patterns.update_patterns:
            # A template is learned from a line whose stamp is that of its header.
            by_header = opening < 0 and own is not None and own is record.stamp
            self._add_phases(index, record, observations, mono, stamp, own is None, by_header)
            observations = [one for one in observations if one[0] != LEG]
            if not observations:
                return True
        if len(self._result.problems) == problems and adds_nothing(observations):
            if self._repeats_the_last(record.line, record.begin, stamp, mono, observations):
                return True
            if compiled.repeats:
                begin, end, at = record.begin, record.end, record.needles[0][0]
                self._patterns.learn_ending(compiled, text, self._data, begin, end, at, observations)
        else:
            self._end_repeats()
        self._records.append((index, record.line, self._offset + record.begin, stamp, mono, observations, text))
        return True

    def _mono(self, compiled: CompiledPattern, values: Values, line: int) -> float | None:
        problems: list[str] = []
        mono = compiled.mono(values, problems)
        self._result.problems += [(line, problem) for problem in problems]
        return mono

    def _add_phases(
        self, index: int, record: _Text, observations: list[Observation], mono: float | None, stamp: Stamp | None,
        inherited: bool, by_header: bool,
    ) -> None:  # fmt: skip
        """Keep the phases of weight updates until the block's are joined, and learn the template of their line."""
        begin, end = record.begin, record.end
        # The template begins at the pattern's own needle.
        at = next(at for at, needle in record.needles if index in self._patterns.by_needle[needle])
        for _, update, phase, fields in (one for one in observations if one[0] == LEG):
            update = update or f"byte {self._offset + begin}"  # noqa: PLW2901 - the same in a copy of the log
            held = (*stamp, True) if inherited and stamp is not None and phase.startswith("client.") else stamp
            self._phases.append((begin, end, record.line, held, update, *phase_values(phase, fields, mono), index))
            if by_header and index == self._patterns.template_pattern:
                self._patterns.learn_phase(self._data[at:end], update, phase)

    def _add_repeated(
        self, index: int, group: int, line: int, begin: int, end: int, text: str, stamp: Stamp | None
    ) -> None:
        """Take a line with a known ending, which gives no more than the observations of that."""
        self._result.recognised[index] = self._result.recognised.get(index, 0) + 1
        stamp = self._times.date(begin, end, stamp)
        mono = self._times.mono if stamp is None else None
        observations = [*self._patterns.repeated[group]]
        if not self._repeats_the_last(line, begin, stamp, mono, observations):
            self._records.append((index, line, self._offset + begin, stamp, mono, observations, text))

    def _repeats_the_last(
        self, line: int, begin: int, stamp: Stamp | None, mono: float | None, observations: list[Observation]
    ) -> bool:
        """True for a record that repeats the one before in the same second; else others may repeat it."""
        count, before = self._repeat_counts.get(begin, (0, 0))
        last = self._first_line + before if count else line
        key = stamp and (stamp[0], int(stamp[1])), mono
        repeats = self._repeats
        if repeats is not None and repeats.key == key and repeats.observations == observations:
            repeats.count, repeats.last = repeats.count + 1 + count, last
            return True
        self._end_repeats()
        self._repeats = _Repeats(key, [*observations], observations, line, count, last)
        return False

    def _end_repeats(self) -> None:
        """Add the number of repeats to the record of the first line."""
        repeats, self._repeats = self._repeats, None
        if repeats is not None and repeats.count:
            repeats.record.append((SAME, repeats.count, repeats.last - repeats.line))

    def _read_rows(self, columns: Columns, compiled: CompiledPattern) -> None:
        """Read the rows of the table that the log is, but for lines that a pattern has recognised."""
        patterns, begin = self._patterns, 0
        read = {offset: stamp for _, _, offset, stamp, *_ in self._records}
        latest: Stamp | None = None
        for number, raw in enumerate(self._data.split(b"\n"), self._first_line):
            offset, size = self._offset + begin, len(raw)
            if offset in read:
                latest = read[offset] or latest
            elif 0 < size < _MAX_TEXT and b"\r" not in raw[:-1]:
                text = self._decode(begin, begin + size, begin)
                stamp = patterns.headers.read(text)
                row = row_of(columns, text, patterns.message)
                if row is not None and row.clock:
                    stamp = any_stamp(row.clock) or stamp
                if stamp is not None:
                    latest = stamp
                    self._times.date_row(begin, stamp)
                if row is not None:
                    observations = self._result.observe(compiled, row.values, number)
                    self._records.append((compiled.index, number, offset, latest, None, observations, text))
            begin += size + 1


_FIRST = (1 << 14, 1 << 18)
"""Bytes at the begin of a log from which the format of its lines is learned, one after the other."""


class Scanner(PatternSet):
    """Finds and reads the lines of a log that patterns know.

    One search finds the needles of all patterns; only the lines around a hit are decoded, dated and matched. The result
    depends on nothing but the bytes of a block and the columns that the log's first lines name, so blocks of one file
    can be scanned in any process and in any order; dates and clocks that need the lines before are inferred afterwards
    (`perfmon.sources.clock`).
    """

    prepared = False

    def prepare(self, data: bytes) -> None:
        """Learn from the first lines of a log, for the speed of the blocks behind them."""
        self.prepared = True
        for size in _FIRST:
            self.scan(data[: data.rfind(b"\n", 0, size) + 1])

    def scan(self, data: bytes, offset: int = 0, line: int = 1, heading: Heading | None = None) -> ScanResult:
        """The contents of `data`: whole lines, the first of them number `line` at byte `offset` of its file.

        `heading` is that of the log, where more than one block of it is scanned.
        """
        heading = heading or Heading()
        heading.take(data, offset, self.message)
        if not self.prepared and len(data) > _FIRST[-1]:
            self.prepare(data)
        return BlockScanner(self, data, offset, line).scan(heading.columns)


class ReadingScanner:
    """Reads readings of pollers by the patterns that name an area, without any text."""

    def __init__(self, patterns: Sequence[CompiledPattern]) -> None:
        self._by_area: dict[str, list[CompiledPattern]] = {}
        for compiled in patterns:
            if compiled.pattern.reading:
                self._by_area.setdefault(compiled.pattern.reading, []).append(compiled)

    def scan(self, block: PolledBlock) -> ScanResult:
        """The contents of a block, as if its lines had been scanned."""
        stamp = None if block.at is None else (LOCAL, block.at)
        records: list[Record] = []
        scanned = ScanResult(records, len(block.readings), len(block.data))
        offset, number = block.offset, max(block.line, 1)
        texts = block.data.decode("utf-8", "replace").removesuffix("\n").split("\n")
        for text, reading in zip(texts, block.readings, strict=True):
            for compiled in self._by_area.get(reading.area, ()) if reading is not None else ():
                values = compiled.of_reading(block.host, reading) if reading is not None else None
                if values is not None:
                    observations = scanned.observe(compiled, values, number)
                    records.append((compiled.index, number, offset, stamp, None, observations, text))
                    break
            offset, number = offset + len(text.encode()) + 1, number + 1
        if stamp is not None:
            last = number - 1, offset - len(texts[-1].encode()) - 1
            records.insert(0, (HEAD, max(block.line, 1), block.offset, stamp, None, [], texts[0]))
            records.append((TAIL, *last, stamp, None, [], texts[-1]))
        return scanned
