"""Findings through time: those of successive windows become alerts that begin, change and end."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Mapping
from dataclasses import replace

from perfmon.core import Severity, TimeBase, Window, length, union
from perfmon.diagnosis import Diagnosis, Finding, Moment
from perfmon.sources.pollers import is_poll
from perfmon.viewmodel import Alert, AlertKey, AlertState, Level, Transition

# --- What one finding amounts to over all windows in which it was seen: no occurrence and no second counted twice ---

_ACTIVITY = 64
_SAME_SHARE = 0.5
_EDGE_S = 1e-6


class OccurrenceCounter:
    """Occurrences and lost time of a finding, by windows that overlap.

    Each window knows only itself, and judges what lies at its older edge without what came before. So an occurrence
    stays counted; of lost time the newer half of a window is that of the window itself (a cause that is found later may
    take it over), while in the older half that of earlier windows stays.
    """

    def __init__(self) -> None:
        self.count = 0
        """Never goes down."""
        self.activity: deque[float] = deque(maxlen=_ACTIVITY)
        """Ends of the newest occurrences (of silences: their starts), in seconds on the run's axis."""
        self._known: dict[tuple[int, ...], float] = {}
        self._lacks: list[Window] = []
        self._lost: list[Window] = []
        self._settled_s = 0.0

    @property
    def lost_s(self) -> float:
        """Seconds lost over all windows."""
        return self._settled_s + length(self._lost)

    def add(self, finding: Finding, window: Window) -> float | None:
        """Take the finding of a window (seconds on the run's axis); when the first new occurrence began, if any."""
        fresh = [moment for moment in finding.moments if self._is_new(moment, window[0])]
        self._lose(finding, window)
        self.activity.extend(window[0] + (moment.end_s if moment.id else moment.start_s) for moment in fresh)
        self.count = max(self.count + len(fresh), finding.count)
        # What is reported later than the window, while the run is silent, is all that comes back of it.
        begins = window[0] + min((moment.start_s for moment in finding.moments), default=0.0)
        self._forget(max(window[0], begins) if begins > window[1] else window[0])
        return window[0] + min(moment.start_s for moment in fresh) if fresh else None

    def shift(self, seconds: float) -> None:
        """The axis moved: all that is remembered moves along."""
        self.activity = deque((time + seconds for time in self.activity), maxlen=_ACTIVITY)
        self._known = {name: end + seconds for name, end in self._known.items()}
        self._lacks = [(low + seconds, high + seconds) for low, high in self._lacks]
        self._lost = [(low + seconds, high + seconds) for low, high in self._lost]

    def _is_new(self, moment: Moment, begin: float) -> bool:
        low, high = begin + moment.start_s, begin + moment.end_s
        if moment.id:
            new = moment.id not in self._known
            self._known[moment.id] = high
            return new
        for at, (start, end) in enumerate(self._lacks):
            if min(end, high) - max(start, low) > _SAME_SHARE * min(end - start, high - low):
                self._lacks[at] = (min(start, low), max(end, high))
                return False
        self._lacks.append((low, high))
        return True

    def _lose(self, finding: Finding, window: Window) -> None:
        lost = _extended([(window[0] + low, window[0] + high) for low, high in finding.lost], finding, window)
        unplaced_s = max(0.0, finding.lost_s - sum(high - low for low, high in finding.lost))
        if not self.count:
            self._settled_s = unplaced_s
        trusted = sum(window) / 2
        if unplaced_s > _EDGE_S:
            trusted = max(trusted, lost[0][0] if lost else window[1])
        kept = [(low, min(high, trusted)) for low, high in self._lost if low < trusted]
        self._lost = union([*kept, *lost])

    def _forget(self, begin: float) -> None:
        """Keep only a sum of the time before the window: it does not come back."""
        self._known = {name: end for name, end in self._known.items() if end >= begin}
        self._lacks = [lack for lack in self._lacks if lack[1] >= begin]
        self._settled_s += length([lost for lost in self._lost if lost[1] < begin])
        self._lost = [lost for lost in self._lost if lost[1] >= begin]


def _extended(lost: list[Window], finding: Finding, window: Window) -> list[Window]:
    """A silence that lasts counts on, though the window waits at its last lines: what it lost ends where it does."""
    until = max((window[0] + moment.end_s for moment in finding.moments if not moment.id), default=window[1])
    if not lost or until <= window[1] or lost[-1][1] < window[1] - _EDGE_S:
        return lost
    return [*lost[:-1], (lost[-1][0], until)]


_NEVER, _PENDING, _FIRING, _RESOLVING, _RESOLVED = "", "pending", "firing", "resolving", "resolved"
_ALIVE = (_FIRING, _RESOLVING)
_RESOLVED_KEPT = 200
_TRANSITIONS = 1000
_SAME_S = 1.0
"""Findings of a failure whose ends are this close are of the same one, if the earlier one is no longer found."""
_FLAPS = 3
_LEVELS = {Severity.CRITICAL: Level.CRITICAL, Severity.WARNING: Level.WARNING, Severity.INFO: Level.NONE}
_ORDER = (
    AlertState.FIRING, AlertState.ACKED, AlertState.PENDING, AlertState.RESOLVING, AlertState.UNKNOWN,
    AlertState.INHIBITED, AlertState.SILENCED, AlertState.RESOLVED,
)  # fmt: skip


def alert_key(finding: Finding) -> AlertKey:
    """Return the key that findings of one alert share."""
    return (finding.signature, tuple(sorted(finding.identity.items())))


def of_pollers(finding: Finding) -> bool:
    """Return true if all evidence is from pollers: then silent logs make it no less certain."""
    return bool(finding.evidence) and all(is_poll(line.source) for line in finding.evidence)


class AlertManager:
    """Alerts over time, in seconds on the run's axis; `now` never comes from a clock of its own.

    A manager is for one passage through a run: one that is played again from an earlier time needs a new one.
    """

    def __init__(self, window_s: float = 600.0) -> None:
        self.window_s = window_s
        """Within these seconds three changes between firing and resolved are flapping."""
        self._records: dict[AlertKey, _Record] = {}
        self._former: dict[AlertKey, AlertKey] = {}
        """Keys of alerts by the later keys of their findings."""
        self._numbers = 0
        self._transitions: deque[Transition] = deque(maxlen=_TRANSITIONS)
        self._now: float | None = None
        self._base: TimeBase | None = None
        self._stale = False
        self._silent: Mapping[str, float] = {}
        self._handled: dict[AlertKey, tuple[bool, float | None]] = {}
        """(acknowledged, end of silence) of alerts of the manager before this one."""

    def fresh_copy(self) -> AlertManager:
        """Return a manager without alerts, in which acknowledged and silenced ones still are."""
        book = AlertManager(self.window_s)
        handled = {key: (record.acked, record.silenced_until) for key, record in self._records.items()}
        book._handled = {key: how for key, how in handled.items() if how != (False, None)}
        return book

    def update(
        self,
        snapshot: Diagnosis,
        now: float,
        stale_s: float | None,
        silent: Mapping[str, float] | None = None,
        actual: float | None = None,
    ) -> tuple[Alert, ...]:
        """Take the diagnosis of a window that ends at `now`; `stale_s` as in `MonitorState`: live alerts turn unknown.

        So do alerts with evidence from `silent` logs, given with the times at which they were last read. Those of
        pollers do not, nor does a silence that lasts: they hold until the `actual` time, as in `MonitorState`.
        """
        run = snapshot.run
        if self._now is not None and self._base is not run.time_base:
            self.shift(now - self._now)
        self._base, self._stale, self._silent = run.time_base, stale_s is not None, silent or {}
        seen: set[AlertKey] = set()
        current = {alert_key(finding) for finding in snapshot.findings}
        for finding in snapshot.findings:
            key = self._known_as(alert_key(finding), finding, run.start, current)
            if key not in seen:
                seen.add(key)
                self._see(key, finding, (run.start, run.end), _moment(finding, now, actual))
        for key, record in self._records.items():
            if key not in seen and not self._unknown(record):
                record.leave(_moment(record.finding, now, actual), run.end - run.start)
        self._drop_oldest()
        return self.alerts(now, actual)

    def alerts(self, now: float, actual: float | None = None) -> tuple[Alert, ...]:
        """All alerts, most pressing first, with what was acknowledged or silenced since the last update."""
        self._now = now
        alive = {key[0] for key, record in self._records.items() if record.life in _ALIVE}
        listed = [record for record in self._records.values() if record.listed]
        made = [self._alert(record, alive, now, _moment(record.finding, now, actual)) for record in listed]
        return tuple(sorted(made, key=_order))

    def begun(self, signatures: Container[str]) -> list[float]:
        """Times at which the alerts of some signatures began that are not over."""
        return [one.began for one in self._records.values() if one.key[0] in signatures and not one.over]

    def transitions(self) -> tuple[Transition, ...]:
        """The newest changes of state, oldest first."""
        return tuple(sorted(self._transitions, key=lambda transition: transition.time))

    def ack(self, key: AlertKey) -> bool:
        """Acknowledge an alert until it resolves; False if there is no such alert, or it is over."""
        record = self._records.get(key)
        if record is None or record.over:
            return False
        record.acked = True
        return True

    def silence(self, key: AlertKey, until: float, actual: float | None = None) -> bool:
        """Silence it until `until`, also if it ends before; False when it is not known.

        What rests on pollers is silenced until `actual`, where that is given.
        """
        record = self._records.get(key)
        if record is not None:
            record.silenced_until = _moment(record.finding, until, actual)
        return record is not None

    def undo(self, key: AlertKey) -> bool:
        """Undo acknowledgement and silence; False when there was neither."""
        record = self._records.get(key)
        if record is None or not (record.acked or record.silenced_until is not None):
            return False
        record.acked, record.silenced_until = False, None
        return True

    def shift(self, seconds: float) -> None:
        """The run's axis became another one, by that much: the present is the same moment on both."""
        self._now = None if self._now is None else self._now + seconds
        self._silent = {source: last_read + seconds for source, last_read in self._silent.items()}
        for record in self._records.values():
            record.shift(seconds)
        self._handled = {k: (acked, None if t is None else t + seconds) for k, (acked, t) in self._handled.items()}
        moved = [replace(change, time=change.time + seconds) for change in self._transitions]
        self._transitions = deque(moved, maxlen=_TRANSITIONS)

    def _known_as(self, key: AlertKey, finding: Finding, start: float, current: set[AlertKey]) -> AlertKey:
        """The key of the alert of a finding: an earlier one if only the rank of a failure became known since then."""
        if key in self._records or "cause" not in finding.identity:
            return key  # a metric may well be bad on one rank, and later on another one
        if self._former.get(key) in self._records:
            return self._former[key]
        at = start + finding.last_s
        for old, record in self._records.items():
            alike = old[0] == key[0] and _without_rank(old) == _without_rank(key) and old not in current
            if alike and not record.over and abs(record.last - at) <= _SAME_S:
                self._former[key] = old
                return old
        return key

    def _see(self, key: AlertKey, finding: Finding, window: Window, now: float) -> None:
        record = self._records.get(key)
        if record is None:
            self._numbers += 1
            record = self._records[key] = _Record(self._numbers, key, finding)
            record.acked, record.silenced_until = self._handled.pop(key, (False, None))
        record.see(finding, window, now, self._unknown(record))

    def _unknown(self, record: _Record) -> bool:
        """Return true if it may have ended unnoticed: its sources are silent, and it is not about that silence."""
        if record.over or _of_silence(record.finding):
            return False
        return bool(self._last_read(record)) or (self._stale and not of_pollers(record.finding))

    def _last_read(self, record: _Record) -> list[float]:
        """Times at which the silent logs of its evidence were last read."""
        sources = {line.source for line in record.finding.evidence}
        return [last_read for source, last_read in self._silent.items() if source in sources]

    def _until(self, record: _Record, now: float, at: float) -> float | None:
        """The last time at which it is known to hold; None for the present."""
        if not self._unknown(record):
            return None if at == now else at
        logs = [last_read for source, last_read in self._silent.items() if not is_poll(source)]
        last_read = min(self._last_read(record), default=max(logs, default=record.last))
        return min(at, max(last_read, record.last))

    def _alert(self, record: _Record, alive: set[str], now: float, at: float) -> Alert:
        """`at` is the moment of what it rests on."""
        if record.silenced_until is not None and record.silenced_until <= at:
            record.silenced_until = None
        cause = record.finding.explained_by
        inhibited_by = cause if cause in alive and not record.over else None
        state = self._state(record, inhibited_by)
        self._transitions.extend(record.become(state, at))
        return record.alert(state, inhibited_by, at - self.window_s, self._until(record, now, at))

    def _state(self, record: _Record, inhibited_by: str | None) -> AlertState:
        if record.over:
            return AlertState.RESOLVED
        if record.silenced_until is not None:
            return AlertState.SILENCED
        if self._unknown(record):
            return AlertState.UNKNOWN
        if inhibited_by is not None:
            return AlertState.INHIBITED
        if record.acked and record.life != _RESOLVING:
            return AlertState.ACKED
        return AlertState(record.life)

    def _drop_oldest(self) -> None:
        over = [record for record in self._records.values() if record.over]
        for record in sorted(over, key=lambda record: record.turned)[:-_RESOLVED_KEPT]:
            del self._records[record.key]
            self._former = {key: former for key, former in self._former.items() if former != record.key}


def _without_rank(key: AlertKey) -> list[tuple[str, str]]:
    return [(name, value) for name, value in key[1] if name != "rank"]


def _moment(finding: Finding, now: float, actual: float | None) -> float:
    """Up to when a finding is known to hold: what rests on lines of the run no longer than these are judged."""
    return now if actual is None or not (of_pollers(finding) or _goes_on(finding)) else max(now, actual)


class _Record:
    """State of one alert over time."""

    def __init__(self, number: int, key: AlertKey, finding: Finding) -> None:
        self.number, self.key, self.finding = number, key, finding
        self.life = _NEVER
        self.acked = False
        self.silenced_until: float | None = None
        self.changed = self.last = 0.0
        self.began = self._since = 0.0
        self.turned = 0.0
        self._judged = float("inf")
        """Up to when it was judged last: the time between that and the next window is unknown."""
        self._seen_from = float("inf")
        """The start of the longest window that was judged."""
        self._tally = OccurrenceCounter()
        self._state: AlertState | None = None
        self._fired = False
        self._turns: deque[float] = deque(maxlen=_FLAPS)

    @property
    def listed(self) -> bool:
        """False for an alert that was pending and came to nothing."""
        return self.life != _NEVER

    @property
    def over(self) -> bool:
        """It does not hold now."""
        return self.life in (_NEVER, _RESOLVED)

    def see(self, finding: Finding, window: Window, now: float, unsure: bool) -> None:
        """Take the finding of a window; where that is `unsure` its life stays as it is."""
        first, last = window[0] + finding.first_s, window[0] + finding.last_s
        if self._apart(now, window[1] - window[0]) and not _of_silence(finding):
            self._since = max(self._since, first)
        self._judged = now
        self.began = min(self.began, first) if self.listed else first
        self.last = max(self.last, last) if self.listed else last
        self.finding = finding
        fresh = None if finding.state == _PENDING else self._tally.add(finding, window)
        if unsure:
            return
        begun = fresh if self._fired and fresh is not None else first
        if not self.listed:
            self._since = max(first, window[0] + finding.since_s)
        elif self.over and finding.state != _RESOLVED:
            self._since = begun
        elif window[0] < self._seen_from:  # a window that reaches further back than those before
            self._since = min(self._since, max(first, window[0] + finding.since_s))
        self._seen_from = min(self._seen_from, window[0])
        self._fired = self._fired or finding.state != _PENDING
        over_already = finding.state == _RESOLVED and not self.listed
        self._turn(finding.state, last if over_already else begun if self.over else now)

    def leave(self, now: float, window_s: float) -> None:
        """The window, that long, does not contain it: it ended, at the latest when it was judged last."""
        until = self._judged if self._apart(now, window_s) else now
        self._judged = now
        self._turn(_RESOLVED if self._fired else _NEVER, until)

    def _apart(self, now: float, window_s: float) -> bool:
        return now - window_s > self._judged

    def _turn(self, life: str, time: float) -> None:
        if life == self.life:
            return
        if self.life not in (_NEVER, _PENDING) and (self.life in _ALIVE) != (life in _ALIVE):
            self._turns.append(time)
        self.life, self.turned = life, time
        if self.over:
            self.acked = False
        if life == _NEVER:
            self._state = None

    def become(self, state: AlertState, now: float) -> list[Transition]:
        """Set the state that is shown from `now` on, or from the last turn of its life; return the transitions."""
        was, self._state = self._state, state
        if state is was:
            return []
        self.changed = self.turned if state == self.life else now
        changes = [Transition(self.changed, self.key, state, _LEVELS[self.finding.severity])]
        if was is None and self._fired and state is not AlertState.FIRING:
            changes.insert(0, replace(changes[0], time=self._since, state=AlertState.FIRING))
        return changes

    def alert(self, state: AlertState, inhibited_by: str | None, flapping_since: float, until: float | None) -> Alert:
        """As it is published."""
        turns = [time for time in self._turns if time >= flapping_since]
        return Alert(
            number=self.number,
            key=self.key,
            finding=self.finding,
            state=state,
            began=self.began,
            last=self.last,
            changed=self.changed,
            count=self._tally.count,
            lost_s=self._tally.lost_s,
            inhibited_by=inhibited_by,
            silenced_until=self.silenced_until,
            flapping=len(turns) >= _FLAPS,
            activity=tuple(self._tally.activity),
            since=self._since,
            until=until,
        )

    def shift(self, seconds: float) -> None:
        """The axis moved: what is remembered moves along."""
        self.began, self._since, self.last = self.began + seconds, self._since + seconds, self.last + seconds
        self.changed, self.turned = self.changed + seconds, self.turned + seconds
        self._judged += seconds
        self._seen_from += seconds
        self._turns = deque((time + seconds for time in self._turns), maxlen=_FLAPS)
        if self.silenced_until is not None:
            self.silenced_until += seconds
        self._tally.shift(seconds)


def _of_silence(finding: Finding) -> bool:
    """Return true if it is about a lack of lines: then silent logs make it no less certain."""
    return bool(finding.moments) and not finding.moments[-1].id


def _goes_on(finding: Finding) -> bool:
    """Return true for a silence that lasts, however long ago the window ended."""
    return _of_silence(finding) and finding.moments[-1].end_s > finding.last_s


def _order(alert: Alert) -> tuple[float, ...]:
    place = _ORDER.index(alert.state)
    if alert.state is AlertState.RESOLVED:
        return (place, -alert.changed, -alert.number)
    return (place, -alert.lost_s, -alert.finding.severity.rank, alert.number)
