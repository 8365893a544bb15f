"""The state file of a running monitor, for status lines; written and read."""

from __future__ import annotations

import json
import os
import stat
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from perfmon.core import PerfmonError, Progress, evidence_text, replacing

if TYPE_CHECKING:
    from perfmon.diagnosis import Diagnosis, MetricStats
    from perfmon.viewmodel import MonitorState


# --- How a run stands, in the few words and figures that a status line has room for ---

ENDS = ("finished", "failed", "stalled")
"""States in which a run does not continue."""
_LEVELS = {"healthy": "good", "watch": "warning", "overdue": "warning", "idle": "idle", "": "good"}
"""Levels of conditions; of the others nothing is known."""
POINTS = 24
"""Values of the headline metric that are kept, over the window."""


class State(NamedTuple):
    """State of a run."""

    specs: tuple[str, ...]
    """Sources, as absolute paths where they are paths."""
    age_s: float
    """Seconds since it was written."""
    run: str
    """State of the monitor (`RunState`), or `observed` without a monitor."""
    severity: str
    """Of the verdict: critical, warning, info; "" when there is no bottleneck."""
    signature: str
    """Of the verdict; "" without one."""
    title: str
    sentence: str
    lost_s: float
    lost_share: float
    """Fraction of the window that the verdict costs."""
    firing: int
    """Alerts that fire."""
    observed: bool
    """Some line was recognised."""
    stale_s: float | None = None
    """Age of the newest line, when it is too old for a verdict."""
    metric: str = ""
    """The metric that shows most of the verdict; "" when none does."""
    unit: str = ""
    value: float | None = None
    """Its last value."""
    values: tuple[float | None, ...] = ()
    """The largest of each part of the window, oldest first; None where nothing was measured."""
    progress: str = ""
    """The state of the run itself, as its logs prove it; "" where nothing was read."""
    assessment: str = ""
    """Assessment of the run as a whole."""
    cause: str = ""
    """The finding that is the verdict in a sentence, without its title, cost and advice."""
    lost_by: str = ""
    """Whose time is lost, where the rest of the run continues meanwhile; "" where the run loses it."""
    idle_s: float | None = None
    """Seconds for which its servers have had no request, where that is all there is to state."""
    unused_s: float | None = None
    """Seconds without output of servers that print nothing without requests: they are idle, or hung."""
    dropped: str = ""
    """The requests that its servers had when their output ended: they are hung or dead."""
    overdue_s: float | None = None
    """Seconds without progress, where its rhythm allows no such pause."""
    done: float | None = None
    """Steps, or what else is counted, that are done; None where no line reports them."""
    total: float | None = None
    counted: str = ""
    """The unit of both."""
    left_s: float | None = None
    """Seconds that the rest takes at the present pace."""

    @property
    def condition(self) -> tuple[str, float]:
        """State what there is to say without a verdict, and for how many seconds that lasts: silent, overdue, idle or
        unused; otherwise the assessment, and 0.
        """
        lasting = {"silent": self.stale_s, "overdue": self.overdue_s, "idle": self.idle_s, "unused": self.unused_s}
        if self.progress not in ENDS:
            for name, seconds in lasting.items():
                if seconds is not None:
                    return name, seconds
        return self.assessment, 0.0

    @property
    def level(self) -> str:
        """One of critical, warning, info, good, idle and unknown."""
        if not self.observed:
            return "unknown"
        if self.condition[0] == "silent":
            return "unknown"  # the verdict is about the time before
        if self.severity in ("critical", "warning"):
            return self.severity
        if self.progress in ENDS and self.progress != "finished":
            return "critical"
        return self.severity or ("good" if self.progress in ENDS else _LEVELS.get(self.condition[0], "unknown"))


def firing_of(picture: MonitorState) -> int:
    """Number of firing alerts of a picture."""
    return sum(alert.state in ("firing", "acked") for alert in picture.alerts)


def state_of_picture(specs: tuple[str, ...], picture: MonitorState) -> State:
    """State of a live run."""
    stale_s = None if picture.is_over else picture.past_s
    if not picture.is_over and stale_s is None and (picture.snapshot is None or picture.snapshot.verdict is None):
        # What a silent log would have contained is not known: that is not green.
        ages = [source.age_s for source in picture.sources if source.freshness == "stale" and source.age_s is not None]
        stale_s = max(ages, default=None)
    state = state_of(specs, picture.snapshot, picture.state.value, firing_of(picture), stale_s)
    finding, idle = picture.verdict_finding, picture.idle_since if stale_s is None else None
    unused = picture.unused_since if stale_s is None else None
    return state._replace(
        cause="" if finding is None else evidence_text(finding.sentence),
        idle_s=None if idle is None else _finite(max(0.0, picture.present - idle)),
        unused_s=None if unused is None else _finite(picture.present - unused),
        overdue_s=_finite(picture.overdue_s) if finding is None and stale_s is None else None,
        dropped=picture.dropped,
        left_s=None if stale_s is not None or picture.overdue_s is not None else state.left_s,
    )


def state_of(
    specs: tuple[str, ...],
    snapshot: Diagnosis | None,
    run: str,
    firing: int = 0,
    stale_s: float | None = None,
) -> State:
    """State of a run of which so many alerts fire."""
    verdict = snapshot.verdict if snapshot else None
    metric = _headline(snapshot) if snapshot else None
    goal = snapshot.run.goal if snapshot else None
    return State(
        specs=specs,
        age_s=0.0,
        run=run,
        severity=verdict.severity.value if verdict else "",
        signature=evidence_text(verdict.signature) if verdict else "",
        title=evidence_text(verdict.title) if verdict else "",
        sentence=evidence_text(verdict.sentence) if verdict else evidence_text(snapshot.summary) if snapshot else "",
        lost_s=_finite(verdict.lost_s) or 0.0 if verdict else 0.0,
        lost_share=_finite(verdict.lost_share) or 0.0 if verdict else 0.0,
        lost_by=evidence_text(verdict.lost_by) if verdict else "",
        firing=firing,
        observed=any(source.events for source in snapshot.run.sources) if snapshot else False,
        stale_s=_finite(stale_s),
        metric=evidence_text(metric.name) if metric else "",
        unit=evidence_text(metric.unit) if metric else "",
        value=_finite(metric.last) if metric and not metric.ends_not_finite else None,
        values=_values(metric, snapshot.run.wall_s) if metric and snapshot else (),
        progress=snapshot.run.state.value if snapshot else "",
        assessment=snapshot.assessment.value if snapshot else "",
        done=_finite(goal.done) if goal else None,
        total=_finite(goal.total) if goal else None,
        counted=evidence_text(goal.unit) if goal else "",
        left_s=_finite(goal.remaining_s) if goal and snapshot and snapshot.run.state is Progress.RUNNING else None,
    )


def _headline(snapshot: Diagnosis) -> MetricStats | None:
    """The first metric that the verdict rests on; without a verdict the one that is critical most."""
    verdict = snapshot.verdict
    if verdict is not None:
        same = [finding for finding in snapshot.findings if finding.signature == verdict.signature]
        words = [name for finding in same for name in finding.proof]
        return next((snapshot.metrics[word] for word in words if word in snapshot.metrics), None)
    banded = [metric for metric in snapshot.metrics.values() if metric.band not in (None, "good")]
    return max(banded, key=lambda metric: metric.band_shares.get("critical", 0.0), default=None)


def _values(metric: MetricStats, wall_s: float) -> tuple[float | None, ...]:
    kept: list[float | None] = [None] * POINTS
    for time_s, value in metric.series:
        at = min(POINTS - 1, max(0, int(time_s / wall_s * POINTS))) if wall_s > 0 else POINTS - 1
        before = kept[at]
        if _finite(value) is not None and (before is None or value > before):
            kept[at] = value
    return tuple(kept)


def _finite(value: float | None) -> float | None:
    return value if value is not None and abs(value) < 1e300 else None


# --- What a running monitor leaves for status lines: a small file with the state of the run, refreshed all the time
# ---
#
# It lies in `$XDG_RUNTIME_DIR/perfmon`, else `$XDG_STATE_HOME/perfmon` (`~/.local/state/perfmon`), for its owner alone.
# One file a monitor: its name holds a number made from the SOURCEs, and the process. A file whose process is gone is no
# news. Reading one loads next to nothing: a status line is printed every few seconds.

SCHEMA = 1
EVERY_S = 3.0
"""The shortest time between two writes, unless the verdict or the number of alerts that fire is another one."""
_LARGEST = 65536


class Refused(Exception):
    """A folder that is not the user's alone."""


def absolute(specs: Sequence[str]) -> tuple[str, ...]:
    """The sources as they are wherever one stands, without secrets; sorted, because their order means nothing."""
    return tuple(sorted({_absolute(spec) for spec in specs}))


def _absolute(spec: str) -> str:
    if spec == "-" or "://" in spec:
        return _masked(spec)
    from perfmon.sources.pollers import parse_request

    with suppress(PerfmonError):
        if not os.path.lexists(spec) and parse_request(spec) is not None:
            return _masked(spec)
    with suppress(OSError):  # the current folder is gone
        spec = os.path.abspath(spec)
    return _masked(spec) if "=" in spec else spec


def _masked(spec: str) -> str:
    from perfmon.core import without_secrets  # a status line of plain paths loads as little as it can

    return without_secrets(spec)


def folder() -> str:
    """Folder of state files."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(runtime) and os.path.isdir(runtime):
        return os.path.join(runtime, "perfmon")
    home = os.environ.get("XDG_STATE_HOME", "")
    return os.path.join(home if os.path.isabs(home) else os.path.expanduser("~/.local/state"), "perfmon")


# --- writing ----------------------------------------------------------------------------------------------------------
class StateFile:
    """The file of this monitor; `write` it with every picture, `remove` it at the end. Neither ever raises.

    `problem` states in one line why nothing could be written, "" while all is well.
    """

    def __init__(self, specs: Sequence[str], clock: Callable[[], float] = time.monotonic) -> None:
        self.problem = ""
        self._specs = absolute(specs)
        self._clock = clock
        self._next = float("-inf")
        self._path = os.path.join(folder(), f"{_key(self._specs)}.{os.getpid()}.json")
        self._written = False
        self._written_gist: tuple[object, ...] = ()

    def write(self, picture: MonitorState) -> None:
        """Write the state of a picture, at most once every EVERY_S seconds while it is the same."""
        now, gist = self._clock(), _gist(picture)
        if now < self._next and gist == self._written_gist:
            return
        self._next, self._written_gist = now + EVERY_S, gist
        try:
            _own_folder(os.path.dirname(self._path))
            if not self._written:
                _sweep(os.path.dirname(self._path))
            document = {
                "schema": SCHEMA,
                **_owner(),
                "written": time.time(),
                **state_of_picture(self._specs, picture)._asdict(),
            }
            with replacing(self._path) as file:
                file.write(json.dumps(document, allow_nan=False).encode())
            self._written, self.problem = True, ""
        except (OSError, ValueError, Refused) as error:
            reason = getattr(error, "strerror", None) or error
            self.problem = f"{self._path}: cannot be written: {reason} (perfmon status cannot see this monitor)"

    def remove(self) -> None:
        """Remove the file at the end."""
        if self._written:
            with suppress(OSError):
                os.unlink(self._path)


def _own_folder(path: str) -> None:
    """Makes the folder where it is not there, and raises Refused when it is another user's or a link."""
    try:
        found = _check_owner(path)
    except FileNotFoundError:
        with suppress(FileExistsError):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.mkdir(path, 0o700)
        found = _check_owner(path)
    if stat.S_IMODE(found.st_mode) & 0o077:
        os.chmod(path, 0o700)


def _check_owner(path: str) -> os.stat_result:
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise Refused(f"{path} is not a folder that you own")
    return found


def _sweep(where: str) -> None:
    """Removes what monitors of this host left that were killed."""
    for name in os.listdir(where):
        path = os.path.join(where, name)
        document = _document(path) if name.endswith(".json") else None
        if document is not None and document.get("host") == os.uname().nodename and not _alive(document):
            with suppress(OSError):
                os.unlink(path)


def _key(specs: Sequence[str]) -> str:
    whole = "\0".join(specs)
    return f"{zlib.crc32(whole.encode(errors='surrogateescape')):08x}"


# --- who wrote it -----------------------------------------------------------------------------------------------------
@cache
def _owner() -> dict[str, Any]:
    """This process: it stays what it is."""
    return {"pid": os.getpid(), "host": os.uname().nodename, "boot": _boot(), "started": _started(os.getpid())}


def _boot() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def _started(pid: int) -> str:
    """Start of a process in the kernel's ticks since boot; "" if unknown."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read(4096).rpartition(b")")[2].split()[19].decode("ascii")
    except (OSError, IndexError, ValueError):
        return ""


def _alive(document: dict[str, Any]) -> bool:
    """Return true if the monitor still runs; for one of another host (homes may be shared) only its age counts."""
    if document.get("host") != os.uname().nodename:
        return True
    if document.get("boot") != _boot():
        return False
    pid = document.get("pid")
    if not isinstance(pid, int) or pid <= 0:
        return False
    with suppress(PermissionError):
        try:
            os.kill(pid, 0)
        except (ProcessLookupError, OverflowError):
            return False
    return document.get("started") == _started(pid)


# --- reading ----------------------------------------------------------------------------------------------------------
def read_state(specs: Sequence[str]) -> State | None:
    """State of the newest running monitor of the same sources."""
    wanted = absolute(specs)
    found = [state for state in read_states(_key(wanted)) if state.specs == wanted]
    return min(found, key=lambda state: state.age_s, default=None)


def read_states(key: str = "") -> list[State]:
    """States of all running monitors of this user, by source."""
    where = folder()
    try:
        _check_owner(where)
        names = sorted(name for name in os.listdir(where) if name.startswith(key) and name.endswith(".json"))
    except (OSError, Refused):
        return []
    states = [state for name in names if (state := _read(os.path.join(where, name))) is not None]
    return sorted(states, key=lambda state: (state.specs, state.age_s))


def _read(path: str) -> State | None:
    """The state in a file; None for one that is broken, another user's, or of a monitor that is gone."""
    document = _document(path)
    if document is None or document.get("schema") != SCHEMA or not _alive(document):
        return None
    try:
        age = max(0.0, time.time() - float(document["written"]))
        values = {name: document[name] for name in State._fields if name in document}
        values |= {"age_s": age, "specs": tuple(map(str, values["specs"])), "values": tuple(values["values"])}
        return State(**values)
    except (ValueError, KeyError, TypeError):
        return None


def _document(path: str) -> dict[str, Any] | None:
    """Content of a file of this user; None if it is not a table."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, encoding="utf-8") as file:
            own = os.fstat(handle).st_uid == os.geteuid()
            document = json.loads(file.read(_LARGEST)) if own else None
    except (OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


# --- its contents -----------------------------------------------------------------------------------------------------
def _gist(picture: MonitorState) -> tuple[object, ...]:
    """The part of a picture whose changes are written at once."""
    verdict = picture.snapshot.verdict if picture.snapshot else None
    cause = (verdict.signature, verdict.severity) if verdict else ()
    return picture.state, firing_of(picture), *cause
