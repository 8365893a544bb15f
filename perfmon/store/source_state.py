"""The state of one log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from perfmon.core import HEAD, SILENCE, UPTIME, Gap, Observation
from perfmon.sources import SourceClock

QUIET_FROM_S = 10.0
"""Silences are kept from this length on."""
_MAX_GAPS = 4096
_MAX_NOTES = 8
_IDLE_S = 10.0
_RECENT = 64
_SHOWN = 400
_LATE_LINES = 200
_COARSE_S = 1.5
"""Most lines by which a line may be late, and least seconds by which it is: see `perfmon.sources.scan.block_times`."""


@dataclass(slots=True)
class SourceState:
    """Everything known of one log as a whole."""

    spec: str
    index: int
    bytes: int = 0
    lines: int = 0
    events: int = 0
    skipped: int = 0
    errors: int = 0
    first: float | None = None
    """Seconds on the log's own axis."""
    last: float | None = None
    recorded: float | None = None
    """The latest time of its lines that were read."""
    kind: int | None = None
    """Kind of its stamps (EPOCH, LOCAL, YEARLESS, DAYTIME), None when it has only `t=` or no clock."""
    monotonic: bool = False
    mono_to_wall: float | None = None
    stepped_back: int = 0
    stepped: int = 0
    """Number of times its clock was set and the step was removed: see `perfmon.clocks.adjustments`."""
    pseudo: float = 0.0
    """Clock of a log without any clock: the durations that its lines reported, added up in order."""
    undated: bool = False
    """There are observations before any timestamp: the first one dates them."""
    gaps: list[Gap] = field(default_factory=list)
    """Time ranges of 10 s and more without a dated line."""
    spread_line: int = 0
    """Up to it steps without timestamps were spread over the gaps that they stand in."""
    next_line: int = 0
    """The number of the line that comes next."""
    live_lines: int = 0
    """Recognised lines without progress: see `perfmon.store.progress`."""
    idle: list[Gap] = field(default_factory=list)
    """Time ranges of 10 s and more in which every line was one of these."""
    active_at: float | None = None
    """Time of its last progress."""
    idle_is_loose: bool = False
    """The start of the idle range is not certain: the line before it may have no clock of its own."""
    run_of_lines: object = None
    """Time and observations of the last line, if it only shows that work continued."""
    second: tuple[int, int] | None = None
    """Kind and whole seconds of the last stamp."""
    idle_since: Gap | None = None
    """The one that may go on: its `upto` is the last line of it."""
    patterns: Counter[int] = field(default_factory=Counter)
    """Lines per pattern index."""
    notes: list[str] = field(default_factory=list)
    components: set[str] = field(default_factory=set)
    idle_silence: bool = False
    busy: bool = False
    """Its last statistics show work: another line is due, although it is silent when idle."""
    polled: bool = False
    """Its lines are a poller's: its values count, but it does not prove that the run continues."""
    ahead_s: float | None = None
    """Of such a log: seconds to add to its axis to get the run's, by the arrivals of its lines; None: unknown."""
    ended: bool = False
    written_then: bool | None = None
    """Its file was last written when its last line was printed; None: unknown. See `perfmon.clocks.alignment`."""
    midnight: float = 0.0
    """Then: the midnight from which a log without dates counts, in seconds since 1970 by the clock of its zone."""
    zone_s: float = 0.0
    """By how much that clock is ahead of UTC."""
    held_s: float = 0.0
    """Seconds for which its lines are held back, by their arrivals; they come in bursts then."""
    murmurs: bool = False
    """Lines without timestamps came after its last dated line."""
    murmured: float | None = None
    """Time of their arrival, on the log's own axis."""
    passed: float | None = None
    """Time of the newest lines without timestamps, on the log's own axis, where their arrival dates them."""
    murmurs_live: bool = False
    """And the newest of them are whole lines without progress."""
    clocked: bool = False
    """Some line of it has a clock."""
    tail: float | None = None
    """Time of the last dated line, on the log's own axis."""
    last_line: tuple[int, str] = (0, "")
    """Its number and text."""
    first_text: str = ""
    """The text of the first dated line."""
    first_line: int = 0
    """Its number."""
    first_by_ticks: bool = False
    """Only its `t=` dates it."""
    last_silence: tuple[tuple[int, str], tuple[int, str]] = ((0, ""), (0, ""))
    """The lines on either side of the last one, be it that their dates were not believed yet."""
    redated: Gap | None = None
    """The one before which no date was believed: its length is unknown."""
    bar_at: float | None = None
    """Time of its last line that has no clock and is dated by a duration in its text, as the frames of a bar."""
    bar_line: int = 0
    """The number of that line."""
    ended_at: float | None = None
    """Time at which something outside ended its run, from the text of a line without a clock at its head."""
    latest: float | None = None
    """The latest time of its last lines: some come late."""
    latest_line: tuple[int, str] = (0, "")

    @property
    def clockless(self) -> bool:
        """No line of it has a clock."""
        return not self.clocked

    def shift(self, seconds: float) -> None:
        """Move all its times."""
        for name in (
            "first",
            "last",
            "tail",
            "bar_at",
            "ended_at",
            "latest",
            "recorded",
            "active_at",
            "murmured",
            "passed",
        ):
            time = getattr(self, name)
            if time is not None:
                setattr(self, name, time + seconds)
        self.gaps = [gap.moved(seconds) for gap in self.gaps]
        self.redated = None if self.redated is None else self.redated.moved(seconds)
        self.idle = [gap.moved(seconds) for gap in self.idle]
        self.idle_since = None if self.idle_since is None else self.idle_since.moved(seconds)

    def note(self, text: str) -> None:
        """Keep a note, if there are not many yet."""
        if len(self.notes) < _MAX_NOTES and text not in self.notes:
            self.notes.append(text)

    def note_line(self, time: float, line: tuple[int, str]) -> None:
        """Take in one of the last dated lines (number, text); the latest of them counts."""
        if not self._is_behind(time, line):
            self.latest, self.latest_line = time, line

    def advance_to(self, time: float, line: tuple[int, str]) -> tuple[float, tuple[int, str]]:
        """Return the latest time up to that line, and the line that has it."""
        return (self.latest, self.latest_line) if self._is_behind(time, line) and self.latest else (time, line)

    def _is_behind(self, time: float, line: tuple[int, str]) -> bool:
        near = line[0] - self.latest_line[0] <= _LATE_LINES
        return self.latest is not None and near and time < self.latest - _COARSE_S

    def live(self, time: float, line: int, text: str) -> None:
        """Take in a recognised line without progress; an unrecognised one before it ends an idle range."""
        self.live_lines += 1
        held = self.idle_since
        if held is None or not held.upto <= line <= held.upto + 1:  # the frames of a bar are one line
            self.end_idle(None)
            held = Gap(time, time, line, text[:_SHOWN], line)
        if self.idle_is_loose and time > held.start:  # from this line on it is certain
            held, self.idle_is_loose = Gap(time, time, line, text[:_SHOWN], line), False
        self.idle_since = Gap(held.start, max(held.end, time), held.line, held.text, line)

    def active(self, time: float, line: int, text: str) -> None:
        """Take in a line of progress: an idle range ends, and the next may start."""
        held = self.idle_since
        if held is not None and held.upto <= line <= held.upto + 1:
            self.end_idle(time)
        else:
            self.end_idle(None)
        self.idle_is_loose, self.active_at = time == self.active_at, time
        self.idle_since = Gap(time, time, line, text[:_SHOWN], line)

    def lines_since(self, time: float) -> int:
        """Count the lines without progress after a time on the log's axis, as far as known."""
        held = [*self.idle[-_RECENT:], *([] if self.idle_since is None else [self.idle_since])]
        return sum(max(0, gap.upto - gap.line) for gap in held if gap.end > time)

    def repeats(self, mono: float | None, observations: Sequence[Observation]) -> bool:
        """Return True if a line repeats the one before it within a second; see `SAME`. Within a block a scanner joins
        them.
        """
        latest = self.second, mono, [*observations]
        known, self.run_of_lines = self.run_of_lines, latest
        return known == latest

    def same(self, time: float, count: int, last: int, text: str, progressed: bool) -> None:
        """Take in `count` more lines that repeat the one before, up to line `last`; `progressed`: with progress."""
        held = self.idle_since
        if held is not None and last == held.upto + count:
            self.idle_since = Gap(held.start, held.end, held.line, held.text, last - 1)
        self.live_lines += count if progressed else count - 1
        if progressed:
            self.active(time, last, text)
            self.idle_is_loose = True
        else:
            self.live(time, last, text)

    def end_idle(self, time: float | None) -> None:
        """Keep the idle range until now, if it is long enough; it lasted up to `time`, if given."""
        held, self.idle_since = self.idle_since, None
        if held is None:
            return
        end = held.end if time is None else max(held.end, time)
        if end - held.start >= _IDLE_S and not self.idle_is_loose:
            self.idle.append(Gap(held.start, end, held.line, held.text, held.upto))
            if len(self.idle) > _MAX_GAPS:
                del self.idle[: _MAX_GAPS // 2]

    def add_gap(self, start: float, end: float, line: tuple[int, str], upto: tuple[int, str] = (0, "")) -> None:
        """Add a time range without a dated line, after `line` (number, text) and up to the line `upto`."""
        self.gaps.append(Gap(start, end, *line, *upto))
        if len(self.gaps) > _MAX_GAPS:
            self.gaps = sorted(sorted(self.gaps, key=lambda gap: gap.start - gap.end)[: _MAX_GAPS // 2], key=_start)

    def record_gap(
        self,
        clock: SourceClock,
        kind: int,
        time: float,
        ticked: float | None,
        line: tuple[int, str],
        observations: Sequence[Observation],
        line_base: int = 0,
    ) -> None:
        """Take in a line that is only dated: the first or last one of a block, or the end of a gap.

        `ticked` is its monotonic `t=` if nothing else dates it: ignored in a log whose lines have dates.
        `line_base` is added to line numbers in `observations`.
        """
        if ticked is not None and clock.kind is not None and not clock.by_arrival:
            return
        if kind == SILENCE:
            stamp, mono = observations[0]
            if stamp is not None and stamp[0] == UPTIME:
                mono, stamp = stamp[1], None
            # Of two `t=` the difference counts: the clock would take the earlier one for a restart.
            before = time - (ticked - mono) if stamp is None and ticked is not None else clock.at(stamp, mono)
            if before is not None:
                number, text = observations[1] if len(observations) > 1 else (-line_base, "")
                self.last_silence = (line, (number + line_base, text))
                self._add_silence(before, time, *self.last_silence)
        elif kind == HEAD:
            # What `t=` alone dates gives way to a date: a block that holds both has only seen the dates.
            if not self.first_text or (self.first_by_ticks and ticked is None):
                (self.first_line, self.first_text), self.first_by_ticks = line, ticked is not None
            if self.tail is not None:
                if time == self.tail:  # as is a line of which the date is doubted
                    self.last_silence = (self.last_line, line)
                self._add_silence(self.tail, time, self.last_line, line)
        else:
            self.tail, self.last_line = time, line
            self.note_line(time, line)
            for stamp, number, text in observations:  # a line before it that is later
                is_ticked = stamp[0] == UPTIME and ticked is not None
                latest = time + stamp[1] - ticked if is_ticked else clock.at(stamp, None)
                if latest is not None:
                    self.note_line(latest, (number + line_base, text))
            # Not the latest time ever: a little later ones, of clocks that are finer, are not looked for within blocks.
            self.last = self.latest if self.recorded is None else max(self.recorded, self.latest or self.recorded)

    def _add_silence(self, since: float, until: float, line: tuple[int, str], upto: tuple[int, str]) -> None:
        """No dated line between the one at `since` and the line `upto`, at `until`: a silence, if that is long."""
        since, line = self.advance_to(since, line)
        if until - since >= QUIET_FROM_S:
            self.add_gap(since, until, line, upto)


def _start(gap: Gap) -> float:
    return gap.start
