"""The values that flow from sources to rules: stamps, observations, records, spans.

Observations cross process boundaries by the hundred thousand, so in transit they are plain tuples whose first
item is a code (`SAMPLE`, `LEG`, ...); the type aliases below define each position.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, NamedTuple


class Severity(StrEnum):
    """Severity of a value or a finding; `rank` orders them."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """0 (info) to 2 (critical)."""
        return {"info": 0, "warning": 1, "critical": 2}[self.value]

    @property
    def label(self) -> str:
        """A sign and a word, so that no colour is needed: `✗ CRIT`, `! WARN`, `· INFO`."""
        return {"info": "· INFO", "warning": "! WARN", "critical": "✗ CRIT"}[self.value]


class Progress(StrEnum):
    """The state of a run, as its logs prove it."""

    STARTING = "starting"
    """No step yet."""
    RUNNING = "running"
    STALLED = "stalled"
    FAILED = "failed"
    FINISHED = "finished"
    """It logged its end, or its last step was the last."""
    SILENT = "silent"
    """No line for long, and nothing proves an end."""
    UNKNOWN = "unknown"
    """Its lines cannot be read, or its process is gone without a word of how it ended."""


class TimeBase(StrEnum):
    """The clock that the times of a run are seconds of."""

    WALL = "wall"
    """Seconds since 1970 by the clock in the log lines."""
    MONOTONIC = "monotonic"
    """Seconds of a process's monotonic clock (`t=` fields)."""
    NONE = "none"
    """No clock anywhere: lines are ordered, durations still count."""


class Ref(NamedTuple):
    """The place of a line: source index, line number (from 1), byte offset of its first byte."""

    source: int
    line: int
    offset: int


# --- stamps: what a line's own clock shows, before date, year or offset are known -------------------------------------
EPOCH = 0
"""Seconds since 1970."""
YEARLESS = 1
"""Month, day and time: seconds since 1 January of a leap year."""
DAYTIME = 2
"""Seconds since midnight."""
LOCAL = 3
"""Date and time without an offset: seconds since 1970 as if the zone were UTC."""
UPTIME = 4
"""Seconds since the process started."""

Stamp = tuple[int, float]
"""(EPOCH | YEARLESS | DAYTIME | LOCAL | UPTIME, seconds)."""
LEAP_YEAR_S = 63_072_000.0
"""Seconds from 1970 to the beginning of a leap year, 1972: times without a year lie in one."""

LegStamp = Stamp | tuple[int, float, bool]
"""Of a leg of a weight update; with True behind it, it is that of the last dated line before a line of its client."""

# --- observations --------------------------------------------------------------------------------------------
SAMPLE = 0
"""(SAMPLE, metric: str, value: float in the metric's unit, group: str). A loss and its like may be nan or inf."""
LEG = 1
"""As read from a line: (LEG, trace: str, leg: str, fields: dict[str, float | str]). In a record: (LEG, trace, joined)
with the `Joined` of all legs of that trace that one block holds."""
SPAN = 2
"""(SPAN, kind: str, duration_s: float, lead_s: float, key: str, fields): began lead_s before the line's time. A number
in `fields["each"]`: the same for each one since that of the last such line."""
OPEN = 3
"""(OPEN, kind: str, key: str, fields): something began at the line's time."""
CLOSE = 4
"""(CLOSE, kind: str, key: str, fields): it ended at the line's time."""
STEP = 5
"""(STEP, component: str, step: int | None, duration_s: float | None): progress was made; None: the step that the last
bar without a name shows."""
MARK = 6
"""(MARK, name: str, count: float, group: str): something countable happened."""

TABLE = 7
"""(TABLE, pattern index, fields): the rows of a table follow, line by line; the pattern's observations of its
fields and of their least and greatest value follow when it has ended."""
ROW = 8
"""(ROW, value: float): a row of the table that began above it."""

PROGRESS = 9
"""(PROGRESS, kind: str, amount: float | None, total: float | None, elapsed_s: float | None, remaining_s: float | None,
key: str, metric: str): work of a kind continued. `amount` counts within one counter (kind and key of a log): only a
change of it is progress; None: the line itself is. `metric`, if any, takes samples of the seconds for one more."""
FAILURE = 10
"""(FAILURE, cause: str, role: str, fatal: bool, fields): something failed; see `perfmon.sources.formats.schema.ROLES`
for the roles."""
DETAIL = 11
"""(DETAIL, cause: str, fields): more about the failure of that cause in the lines just before; `frame` as the cause is
a frame of a traceback, about the failure in the lines that follow; `handled` means that the traceback that follows is
of an error that its process got over, `raised` that it is not."""
RUN = 12
"""(RUN, "begin" | "end", fields): the first or the last words of a run."""
SAME = 13
"""(SAME, count: int, ahead: int): so many of the lines that follow, up to the one that is `ahead` lines further on, are
equal within the same second; no line between them differs. The last observation of its record."""

COUNTED = 14
"""(COUNTED, metric: str, total: float, group: str, key: str): of what counts from a start, the rate a second is a
sample of the group; counters of several keys grow independently."""

MEANS = 15
"""(MEANS, metric: str, group: str, count: float, part_s: float, whole_s: float, recent: str): means over `count` steps
since an epoch began, of which shares are samples: the least of its parts, and as `recent` the latest."""

Observation = tuple[Any, ...]


def adds_nothing(observations: Sequence[Observation]) -> bool:
    """Return True for a line that only shows that it was printed, or that work continued: then it adds nothing to
    another one of the same second.
    """
    return all(one[0] == PROGRESS and one[2:6] == (None, None, None, None) for one in observations)


Fields = dict[str, float | str]

Joined = list[Any]
"""Legs of one weight update, by the J_ positions below; None if no line contains it."""
J_LEGS = 0
"""Bit i is set when LEGS[i] was seen."""
J_TIMES = 1
"""Positions J_TIMES + i: monotonic seconds of LEGS[i]."""
J_WALL, J_RPC, J_QUEUE, J_SERVER_RPC = 6, 7, 8, 9
"""Milliseconds as the client logged them, and the RPC as the server did."""
J_OP, J_URL, J_PATH, J_SERVER_PATH = 10, 11, 12, 13
J_SEND_STAMP, J_DONE_STAMP, J_SERVER_STAMP, J_SERVER_LAST_STAMP = 14, 15, 16, 17
J_LINES = 18
"""[(line, offset, text), ...]"""
J_SIZE = 19

BEGINS_WITH, UNDER_WAY, BETWEEN_RUNS_S = 1, 5, 600.0
"""Another run begins in the same logs: its first step is at most that, the last one before was at least that, and
between the two lies so long a silence."""

HEAD, TAIL, SILENCE = -1, -2, -3
"""Pattern indices of records that only date a line: the first dated line of a block, its last one, and
the line that ends a silence, whose observations are the (stamp, monotonic seconds) before it and its own number."""

Record = tuple[int, int, int, Stamp | None, float | None, list[Observation], str]
"""One recognised line: (pattern index, line number from 1, byte offset, stamp of the line or of the last dated one
before it, monotonic `t=` seconds in the same way, observations, text without escape sequences)."""

SHOWN_PROBLEMS = 3
"""Implausible values of a log are reported one by one up to this number; then they are only counted."""

LEGS = ("client.send", "server.recv", "rpc.start", "rpc.done", "client.done")
"""The legs of a weight update in the order in which they happen."""
ALL_LEGS = (1 << len(LEGS)) - 1
"""`Update.legs` of an update of which all phases were seen."""


@dataclass(slots=True)
class Span:
    """Something with a beginning and an end, in seconds of the run's time base.

    `start` and `end` are None where no clock gives them; `duration_s` is then still the duration that a line
    reported. `seq` orders spans as their lines were read.
    """

    kind: str
    key: str
    seq: int
    source: int
    start: float | None = None
    end: float | None = None
    duration_s: float | None = None
    fields: Fields = field(default_factory=dict)
    refs: list[tuple[Ref, str]] = field(default_factory=list)
    """The lines that prove it, with their text: evidence."""


@dataclass(slots=True)
class Update(Span):
    """One weight update: up to five legs of one trace, over one or two logs.

    Durations are milliseconds as reported by the lines or derived from them (`queue = wall - rpc`); a phase
    without a line stays None.
    """

    op: str = "update_weights"
    send_t: float | None = None
    """Monotonic seconds of the client at `client.send`."""
    recv_t: float | None = None
    """Monotonic seconds of the server at `server.recv`."""
    rpc_start_t: float | None = None
    rpc_done_t: float | None = None
    wall_ms: float | None = None
    rpc_ms: float | None = None
    queue_ms: float | None = None
    client: int | None = None
    """Source index of the client's lines."""
    server: int | None = None
    """Source index of the server's lines."""
    legs: int = 0
    """Bit i is set when LEGS[i] was seen."""
    inherits: int = 0
    """Bit i is set when LEGS[i] is of the client and has the time of a line before it."""

    @property
    def complete(self) -> bool:
        """All five legs were seen."""
        return self.legs == ALL_LEGS


Shift = Callable[[float, int], float]
"""Seconds by which what stands at a time and line of a log is moved."""


class Gap(NamedTuple):
    """A time range in which a log printed no dated line: seconds on the log's axis, and the line before it."""

    start: float
    end: float
    line: int = 0
    text: str = ""
    upto: int = 0
    """The line that ended it, where that is known: between the two are lines without a date."""
    next_text: str = ""
    """The text of that line, where it is known."""

    def moved(self, seconds: float) -> Gap:
        """Return the same gap that much later."""
        return Gap(self.start + seconds, self.end + seconds, self.line, self.text, self.upto, self.next_text)


# --- Output of sources: blocks of whole lines, and notices of what is lost or unexpected ---

NoticeKind = Literal[
    "lost", "capped", "rotated", "truncated", "gone", "appeared", "decoded", "unopened", "history", "written", "present"
]
MARKS = ("history", "written", "present")
"""Kinds of notices that are no messages, but mark the history in a recording: see `HistoryTaggedFeed`."""


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines of one log."""

    data: bytes
    """Ends with a newline, unless `final`."""
    offset: int
    """Byte offset of `data` in the (decompressed) stream."""
    line: int
    """Number of the first line, from 1; 0 when lines are not counted."""
    final: bool = False
    """The input ended within a line: `data` is that unfinished line."""


@dataclass(frozen=True, slots=True)
class Notice:
    """A message about an input."""

    text: str
    kind: NoticeKind
    count: int = 1
