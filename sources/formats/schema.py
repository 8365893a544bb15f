"""The contents of a format pack once its TOML file was read and checked.

A pack is one system's way of logging. Its patterns define which lines mean something, how their fields are read and
which observations (see `perfmon.core.model`) they give.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as member
from typing import Literal, get_args

Style = Literal["regex", "kv", "commas", "json", "pydict", "dashes", "pipes", "bar", "step", "settings", "table"]
"""Ways to read the `body` group of a pattern: `regex` not at all (named groups are the fields), `kv` a=1 b=2,
`commas` a: 1, b: 2 (`=` too), `json` one object, `pydict` a dict repr, `dashes` a:1 - b:2, `pipes` a 1 | b: 2, `bar` a
frame of tqdm (see `bar_frames.py`), `step` the step line of any trainer (see `step_lines.py`), `settings`
what a script prints when it starts, `table` a row of
a log that is a table (see `perfmon.sources.scan.tables`): its lines are found by where they stand, not by needles."""

EXTREMES = ("min", "max")
"""The fields of a table that its rows give."""

PATTERN_ROLES = ("progress", "phase", "liveness", "failure", "run")
"""Meanings of a line for the state of a run: work went on; a phase began or ended; the process lives, whatever it does;
something failed; a run began or ended."""

FAILURE_ROLES = ("cause", "cascade", "record", "order", "context")
"""Kinds of failure lines: a candidate for the first cause; the echo of a failure elsewhere; the record of a parent
that a process died (who and how, not why); an order from outside (time limit, preemption, a signal); advice or other
context that is never a cause."""

STYLES: tuple[Style, ...] = get_args(Style)
Kind = Literal["metric", "leg", "span", "open", "close", "step", "mark", "row", "progress", "failure", "detail", "run"]
"""Kinds of observations; see `perfmon.core.model`."""
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class Emit:
    """One observation that a matching line gives; `kind` decides which of the other members count."""

    kind: Kind
    name: str
    """Metric, span kind, component of the step, mark, or the field with a row's number; for a leg (the phase of a
    weight update) the field that names it, or the phase itself: then the line counts only with two of queue_ms, rpc_ms
    and wall_ms."""
    field: tuple[str, ...] = ()
    """Fields with the value, of which the first that the line has counts; of a step its number, of a mark the count."""
    unit: str = ""
    """Unit of the field as printed: us, ms, s, m, h, ratio, %, `duration` (1m 13s), or "" when it is the metric's."""
    scale: float = 1.0
    over: tuple[str, ...] = ()
    """The metric is 100 * field / over, a percentage."""
    minus: tuple[str, ...] = ()
    """Fields taken off a metric's value or a span's duration, those that the line has; never below zero. Of a close:
    the seconds before the line at which it ended."""
    skip_zero: bool = False
    """A zero means that it did not happen (no checkpoint in this step), not that it was quick."""
    group: str = ""
    """Field that distinguishes series of one metric (an engine, a rank); `host:name` joins two fields by `:`."""
    duration: tuple[str, ...] = ()
    lead: tuple[str, ...] = ()
    """Field with the time from the span's start to the line; the duration itself when empty."""
    key: tuple[str, ...] = ()
    """Fields that pair an `open` with its `close` and name a span, joined by `/`; for a leg the field of the update's
    id, none when each line is an update of its own; for a metric with `rate` what distinguishes several counters."""
    metric: str = ""
    """Metric that the paired duration of an open/close is a sample of; of progress with an amount and `elapsed`: what
    the seconds for one more are a sample of."""
    keep: tuple[str, ...] = ()
    """Fields kept with a span."""
    total: tuple[str, ...] = ()
    """Of progress: the field with the amount at which the work is done."""
    elapsed: tuple[str, ...] = ()
    """Of progress: the field with the time since its counter began; the unit is `unit`, `duration` by default."""
    remaining: tuple[str, ...] = ()
    """Of progress: the field with the time that is estimated to remain."""
    each: str = ""
    """Of a span: the field with the number of what its duration is the mean of (steps, where a line is printed once in
    twenty): the span covers all since the last line that had one. Of a metric `over` another: the field with the
    number, from 0, of the step up to which the two fields are means since an epoch began; the metric is the least share
    in the later parts of the epoch, and `as` the latest share."""
    behind: bool = False
    """Of a span: its line has no clock and follows a dated one; what it reports began with that, behind what other
    such lines covered since."""
    bar: bool = False
    """Of a step: where no field has its number, it is what the last bar without a name in the same log shows."""
    rate: bool = False
    """Of progress: the field is a rate; any value above 0 is progress, and 0 is none. Of a metric: the field counts
    from a start, and the metric is what it grows by in a second."""
    role: str = ""
    """Of a failure: one of FAILURE_ROLES."""
    fatal: bool = False
    """Of a failure: the process that prints it is dead, whatever follows; else only where nothing goes on after it."""
    when: tuple[str, str] | None = None
    """(field, text): only for lines whose field has exactly this text."""
    where: Mapping[str, str] = member(default_factory=dict)
    """Fields and regexes: only for lines of which the whole text of each fits; "" where the line does not have it."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A line (or several) that must be recognised, and what it must give."""

    text: str
    gives: Mapping[str, float]
    """Metric name to value, in the metric's unit."""
    pattern: str = ""


@dataclass(frozen=True, slots=True)
class Header:
    """The begin of the records of a system: the regex has `{time}` for the stamp."""

    id: str
    regex: str
    time: str
    """strptime-like: %Y %m %d %e (of two digits, behind a month that may be one: 419) %H %M %S %b
    %f (fraction, optional) %p (AM or PM, optional)
    %z (offset or Z, optional) %s (since 1970: seconds, or whole milli-, micro- or nanoseconds)."""
    samples: tuple[str, ...] = ()
    trusted: bool = member(default=True, compare=False)
    """False for one of a user's pack: it may take any time."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """One kind of line."""

    pack: str
    id: str
    needles: tuple[str, ...]
    """Literal text, one of which every such line holds; at least 4 bytes each."""
    regex: str
    """With `{figure}` written out: a number, or nan, inf, Infinity."""
    style: Style
    emit: tuple[Emit, ...]
    samples: tuple[Sample, ...] = ()
    rejects: tuple[str, ...] = ()
    clock: tuple[str, ...] = ()
    """Fields, the first of which is the line's own clock: epoch seconds (`time` in metrics.jsonl) or an ISO time."""
    mono: str = ""
    """Field with monotonic seconds (`t=`)."""
    role: str = ""
    """One of PATTERN_ROLES, where the pack defines it; else what `emit` makes of it: see `meaning`."""
    frame: bool = False
    """The line is a frame of a progress bar: what stands behind it, without a newline between, is another record."""
    anchored: bool = False
    """The regex is matched at the begin of the message: behind launcher prefixes, the record's header, its level and
    its place in the source. What the prefixes name (rank, local_rank, pid, ip, host, actor) are fields, too."""
    rows: bool = False
    """The line heads a table, of which each row has a line, read by a pattern that emits a `row`: the fields `min` and
    `max` are the least and the greatest of them, and nothing is emitted before the last of them."""

    reading: str = ""
    """The lines are readings of pollers about this area (`perfmon.sources.pollers.reading`), with their values and
    words as fields; such a pattern has no regex."""
    where: Mapping[str, str] = member(default_factory=dict)
    """Of these only those that have such fields, as in `Emit`."""
    trusted: bool = member(default=False, compare=False)
    """One of ours, whose regex a test holds to be quick on any line; that of another runs under a time limit."""

    @property
    def meaning(self) -> str:
        """The meaning of its lines for the state of a run, one of PATTERN_ROLES."""
        kinds = {emit.kind for emit in self.emit}
        if self.role:
            return self.role
        if kinds & {"failure", "detail"}:
            return "failure"
        if "run" in kinds:
            return "run"
        if kinds & {"step", "leg", "progress"}:
            return "progress"
        return "phase" if kinds & {"span", "open", "close"} else "liveness"

    @property
    def name(self) -> str:
        """`pack/pattern`, as reports show it."""
        return f"{self.pack}/{self.id}"


@dataclass(frozen=True, slots=True)
class Pack:
    """One system's formats."""

    id: str
    title: str
    component: str
    """orchestrator, inference, trainer, data, or "" when the pack does not state it."""
    rank: int
    """Packs are tried in this order; the generic one comes last."""
    idle_silence: bool
    """Silence of such a source is normal when there is no work (vLLM)."""
    generic: bool
    """A catch-all: it comes last and reads the lines that no other pack recognised."""
    headers: tuple[Header, ...]
    patterns: tuple[Pattern, ...]
    file: str = ""
    healthy: tuple[str, ...] = ()
    """Lines of a healthy run of this system: a fixture in which nothing may be found."""
    busy_metric: str = ""
    """After a value of it above zero another line is due, although such a source is silent when idle."""
