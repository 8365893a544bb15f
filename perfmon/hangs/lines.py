"""Watchdog, heartbeat and time-out lines of all ranks, in the model that flight-recorder dumps have.

The format packs of failures read these lines; here their fields become what each rank has enqueued and completed. A
line only shows an operation that timed out, or how far its rank had come: ranks that print none are missing.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from perfmon.core import DETAIL as DETAIL_OF
from perfmon.core import FAILURE, Block, Fields, InputError, counted, evidence_text

from .model import UNKNOWN_PEER, Evidence, GroupKey, Operation, RankState, Status, build, is_default

PACKS = ("failures-nccl", "failures-npu", "failures-torch")
"""The formats that these lines belong to."""
CAUSE = "collective-timeout"
_RANKS = re.compile(r"\d+")
_MISMATCH = re.compile(
    r"Rank (\d+) is running collective: CollectiveFingerPrint\((?:SequenceNumber=(\d+), )?OpType=(\w+)"
    r"(?:, TensorShape=\[([\d, ]{0,200})\])?"
)
_SIZES = (
    (b"starting with ", rb"(?<=processes registered\. )starting with (\d{1,7}) processes"),
    (b"global_rank: ", rb"global_rank: \d{1,7}, member: \d{1,7}/(\d{1,7})\b"),
    (b"global_world_sizes=[", rb"global_world_sizes=\[(\d{1,7})\b"),
    (b"dist_world_size", rb"dist_world_size=(\d{1,7})\b"),
    (b"using world size: ", rb"using world size: (\d{1,7}), data-parallel size"),
    (b"num processes: ", rb"num processes: (\d{1,7})\r?\nprocess index: "),
    (b"process ", rb"process \d{1,7}, total (\d{1,7}), device "),
    (b"pg guid 0", rb"pg guid 0(?:\(default_pg\))? rank \d{1,7}\] \w{1,40} initialization options: size: (\d{1,7})\b"),
)
"""The number of all ranks, as torch and launchers print it: what a lower line is searched for, and what has to stand
there."""
_STATED_SIZES = (
    (
        b"world",
        rb"""(?<![\w.-])(?<!local )(?<!parallel )(?<!\wp )world[_ ]size["']?\s{0,2}[:=]\s{0,2}["']?(\d{1,7})\b""",
    ),
    (b"world size ", rb"(?<=in )world size (\d{1,7})\b"),
    (b"num_processes", rb"""(?<![\w.-])num_processes["']?\s{0,2}[:=]\s{0,2}["']?(\d{1,7})\b"""),
    (b"[rank ", rb"\[rank \d{1,7}/(\d{1,7})\]"),
)
"""The same as programs print it, who may mean all ranks, or a tensor-parallel group of them, or nodes."""
_Line = tuple[Fields, str]
"""The fields of a watchdog line, with `log` where several logs are read, and its text."""
_STAMP = re.compile(r"\[[EWIF](\d{1,2})(\d\d) (\d\d):(\d\d):(\d\d)\.\d")
_PREFIX = 200
_LEAST_S, _USUAL_S = 60.0, 600.0
"""Time between the time-outs of one hang, at least; and the time-out of NCCL where it is not known."""
_MOST_LINES = 200_000
_MOST_RANK = 1 << 20
_WORLD = GroupKey("0")
_GLOBAL = "default_pg"


@dataclass(slots=True)
class _Seen:
    """Contents of the lines of one rank."""

    timeouts: list[Fields] = field(default_factory=list)
    statuses: dict[GroupKey, Status] = field(default_factory=dict)
    places: dict[GroupKey, int] = field(default_factory=dict)
    """By group the rank within it."""
    text: str = ""


def evidence_of_lines(lines: Iterable[tuple[Fields, str]]) -> Evidence:
    """The evidence of the fields of watchdog lines, each with its text, of the last attempt of a job."""
    seen: dict[int, _Seen] = {}
    descriptions: dict[GroupKey, str] = {_WORLD: _GLOBAL}
    world: set[int] = set()
    reported: dict[int, str] = {}
    stuck: dict[int, str] = {}
    alive: set[int] = set()
    size = stated = 0
    lines = list(lines)
    kept = _last_attempt(lines)
    for fields, text in kept:
        rank = _whole(fields.get("rank"))
        world.update(one for one in (rank, _whole(fields.get("from_rank"))) if one is not None and one < _MOST_RANK)
        listed = _whole(fields.get("world_size"))
        if listed is not None and size < listed <= _MOST_RANK:
            size = listed
        listed = _whole(fields.get("stated_size"))
        if listed is not None and stated < listed <= _MOST_RANK:
            stated = listed
        message = str(fields.get("message", "")) or text
        for name in ("missing", "ranks"):
            for number in _RANKS.findall(str(fields.get(name, "")))[:1000]:
                reported.setdefault(int(number), evidence_text(text))
        for number, operation in _mismatched(message):
            one = seen.setdefault(number, _Seen(text=text))
            if operation not in one.timeouts:  # every rank prints a pair
                one.timeouts.append(operation)
            world.add(number)
        if rank is None or rank >= _MOST_RANK or "CollectiveFingerPrint" in message:
            continue
        alive.add(rank)
        if "watchdog got stuck" in message:
            stuck.setdefault(rank, evidence_text(text))
        _note(seen.setdefault(rank, _Seen(text=text)), fields, descriptions)
    states = [_state(rank, one) for rank, one in sorted(seen.items()) if one.timeouts or one.statuses]
    _add_members(states, seen, descriptions)
    evidence = build(states, descriptions, world, size, stated)
    evidence.reported, evidence.stuck, evidence.alive = reported, stuck, frozenset(alive)
    if earlier := len(lines) - len(kept):
        evidence.notes.append(f"{counted(earlier, 'watchdog line')} of earlier attempts of the job left out")
    return evidence


def _note(one: _Seen, fields: Fields, descriptions: dict[GroupKey, str]) -> None:
    key = _group(fields)
    if key is not None:
        descriptions.setdefault(key, str(fields.get("group_name", "")))
        place = _whole(fields.get("group_rank"))
        if place is not None:
            one.places[key] = place
        enqueued, completed = _whole(fields.get("enqueued")), _whole(fields.get("completed"))
        if enqueued is not None and completed is not None:
            one.statuses[key] = Status(enqueued, completed if completed <= enqueued else -1)
    seq = _whole(fields.get("seq"))
    if seq is None:
        return
    if "op" in fields:
        one.timeouts.append({**fields, "group": key.name} if key is not None else dict(fields))
        return
    for timeout in one.timeouts:  # the line with the operation does not name the group, the next one does
        if _whole(timeout.get("seq")) == seq and "group" not in timeout and key is not None:
            timeout["group"] = key.name


def _group(fields: Fields) -> GroupKey | None:
    """The group of a line: its name since torch 2.5, before that a number that only its own process knows.

    Groups of equal number and description are taken for one there: of several of a kind the members are not known.
    """
    name = fields.get("process_group")
    if name is None:
        return None
    described = str(fields.get("group_name", ""))
    if is_default(described) or (str(name) == "0" and not described):
        return _WORLD
    return GroupKey(str(name))


def _state(rank: int, one: _Seen) -> RankState:
    state = RankState(rank, evidence_text(one.text), complete=False)
    state.status = dict(one.statuses)
    for at, timeout in enumerate(one.timeouts):
        key = GroupKey(str(timeout["group"])) if "group" in timeout else _WORLD
        name = str(timeout.get("op", "")).lower()
        state.operations.append(
            Operation(
                group=_WORLD if key == _WORLD else key,
                seq=_whole(timeout.get("seq")) or 0,
                name=name,
                record=at,
                finished=False,
                peer=UNKNOWN_PEER if name in ("send", "recv") else None,
                numel_in=_whole(timeout.get("numel_in")),
                numel_out=_whole(timeout.get("numel_out")),
            )
        )
    listed = {operation.group for operation in state.operations}
    for key, status in one.statuses.items():
        if status.enqueued > status.completed >= 0 and key not in listed:
            state.operations.append(Operation(key, status.completed + 1, "", len(state.operations), finished=False))
    return state


def _mismatched(message: str) -> Iterator[tuple[int, Fields]]:
    """The two sides of `Detected mismatch between collectives on ranks`."""
    if "CollectiveFingerPrint" not in message:
        return
    for rank, seq, op, shape in _MISMATCH.findall(message[:4000]):
        count = 1
        for size in _RANKS.findall(shape):
            count = min(count * int(size), 1 << 62)
        yield int(rank), {"seq": seq or "0", "op": op, "numel_in": str(count)}


def _add_members(states: list[RankState], seen: Mapping[int, _Seen], descriptions: Mapping[GroupKey, str]) -> None:
    """Completes the members of groups of which some rank is silent, where ranks are numbered at even distances."""
    places: dict[GroupKey, dict[int, int]] = {}
    for rank, one in seen.items():
        for key, place in one.places.items():
            places.setdefault(key, {})[place] = rank
    renamed: dict[GroupKey, GroupKey] = {}
    for key, known in places.items():
        if key == _WORLD or is_default(descriptions.get(key, "")) or len(known) < 2:
            continue
        (first, low), (last, high) = min(known.items()), max(known.items())
        step, odd = divmod(high - low, last - first)
        if odd or step < 1 or any(rank != low + (place - first) * step for place, rank in known.items()):
            continue
        ranks = range(low - first * step, high + 1, step)
        if ranks[0] >= 0 and len(ranks) > len(known):
            renamed[key] = GroupKey(key.name, tuple(ranks))
    for state in states if renamed else ():
        state.operations = [replace(one, group=renamed.get(one.group, one.group)) for one in state.operations]
        state.status = {renamed.get(key, key): status for key, status in state.status.items()}


def _whole(value: object) -> int | None:
    text = str(value)
    return int(text) if re.fullmatch(r"-?\d{1,18}", text) else None


# --- attempts of a job that restarted: the log of a launcher has the watchdog lines of every one of them ------------
# Only the last attempt hangs. Lines are of an earlier one if time-outs came so long before the others that these must
# have begun since, or if the numbers of a rank contradict: what it had completed, it cannot wait for later.
@dataclass(slots=True)
class _Row:
    line: _Line
    log: str
    seconds: float | None


def _last_attempt(lines: Iterable[_Line]) -> list[_Line]:
    """Return the lines without those of earlier attempts, in order of time where that is known."""
    rows = _rows(lines)
    timed = sorted((row for row in rows if row.seconds is not None), key=lambda row: row.seconds or 0.0)
    untimed: dict[str, list[_Row]] = {}  # the order of these is known within a log only
    for row in rows:
        if row.seconds is None:
            untimed.setdefault(row.log, []).append(row)
    kept = [row for held in (_since_gap(timed), *untimed.values()) for row in held[_begin(held) :]]
    return [row.line for row in kept]


def _rows(lines: Iterable[_Line]) -> list[_Row]:
    """The lines with their times; one without a time has that of the line before it in its log."""
    rows, last = [], dict[str, float]()
    for fields, text in lines:
        log = str(fields.get("log", ""))
        seconds = _seconds(text)
        if seconds is None:
            seconds = last.get(log)
        else:
            last[log] = seconds
        rows.append(_Row((fields, text), log, seconds))
    return rows


def _seconds(text: str) -> float | None:
    """The time in the year: prefixes have none."""
    match = _STAMP.search(text, 0, _PREFIX)
    if match is None:
        return None
    try:
        at = datetime(2000, *map(int, match.groups()))  # type: ignore[arg-type]
    except ValueError:
        return None
    return (at - datetime(2000, 1, 1)).total_seconds()


def _since_gap(rows: Sequence[_Row]) -> Sequence[_Row]:
    """Rows from the last time-outs on that others came a whole time-out before: they waited that long since."""
    begin, last = 0.0, None
    for row in rows:
        fields = row.line[0]
        if "op" not in fields or row.seconds is None:
            continue
        limit_s = max(_LEAST_S, (_whole(fields.get("timeout_ms")) or _USUAL_S * 1e3) / 1e3)
        if last is not None and row.seconds - last > limit_s:
            begin = (last + row.seconds) / 2
        last = row.seconds
    return [row for row in rows if row.seconds is None or row.seconds >= begin]


def _begin(rows: Sequence[_Row]) -> int:
    """Position of the first row of the last attempt, by the numbers of each rank."""
    held: dict[str, list[int]] = {}
    completed: dict[tuple[str, str], tuple[int, int]] = {}
    waited: dict[tuple[str, str], tuple[int, int]] = {}
    """By rank and group the number, and the position of its row."""
    changes = []
    for at, row in enumerate(rows):
        fields = row.line[0]
        rank = str(fields.get("rank", ""))
        if not rank:
            continue
        mine = held.setdefault(rank, [])
        mine.append(at)
        if "process_group" not in fields:
            continue
        key = rank, str(fields["process_group"])
        done, enqueued = _whole(fields.get("completed")), _whole(fields.get("enqueued"))
        waits = _whole(fields.get("seq"))
        if done is not None and enqueued is not None and done > enqueued:
            done = None  # counters of a group that sends and receives, too, mix both kinds
        old, awaited = completed.get(key), waited.get(key)
        if old is None or all(number is None or number >= old[0] for number in (done, enqueued, waits)):
            old = awaited if awaited is not None and done is not None and done >= awaited[0] else None
        if old is not None:  # the new attempt began after that row, at the latest with the next one of the rank
            changes.append((old[1], mine[bisect_right(mine, old[1])]))
            completed.pop(key, None)
            waited.pop(key, None)
        if done is not None:
            completed[key] = done, at
        if waits is not None:
            waited[key] = waits, at
    last = max((old for old, _ in changes), default=-1)
    return min((new for _, new in changes if new > last), default=0)


# --- reading logs -------------------------------------------------------------------------------------------------
def read_lines(folder: Path) -> Evidence:
    """The evidence of the watchdog lines in all logs below a folder; of none where there are no logs."""
    return evidence_of_lines(_lines_below(folder))


def _lines_below(folder: Path) -> Iterator[tuple[Fields, str]]:
    from perfmon.sources import discover, read_logs
    from perfmon.sources.formats import load_packs
    from perfmon.sources.scan import Heading, Scanner

    try:
        logs = discover([str(folder)])
    except InputError:
        return
    scanner = Scanner([pack for pack in load_packs(()) if pack.id in PACKS])
    headings: dict[object, Heading] = {}
    count = 0
    for log, item in read_logs(logs):
        if not isinstance(item, Block):
            continue
        lowered = item.data.lower()
        for name, patterns in (("world_size", _SIZES), ("stated_size", _STATED_SIZES)):
            if size := _size_in(lowered, patterns):
                yield {name: str(size)}, ""
        heading = headings.setdefault(log, Heading())
        for record in scanner.scan(item.data, item.offset, max(item.line, 1), heading).records:
            for observation in record[5]:
                fields = _fields_of(observation)
                if fields is not None and count < _MOST_LINES:
                    count += 1
                    yield {**fields, "log": log.name}, record[6]


def _size_in(data: bytes, patterns: Iterable[tuple[bytes, bytes]]) -> int:
    """The largest number of ranks that some lines state, or 0."""
    size = 0
    for mark, pattern in patterns:
        expression, at = re.compile(pattern), data.find(mark)
        while at >= 0:
            match = expression.match(data, at)
            size = max(size, int(match[1])) if match is not None else size
            at = data.find(mark, at + 1)
    return size


def _fields_of(observation: tuple[object, ...]) -> Fields | None:
    """The fields of a line about a time-out, or None."""
    if observation[0] == FAILURE and observation[1] == CAUSE:
        return dict(observation[4])  # type: ignore[call-overload, no-any-return]
    if observation[0] == DETAIL_OF and observation[1] == CAUSE:
        return dict(observation[2])  # type: ignore[call-overload, no-any-return]
    return None


def merge(dumps: Evidence, lines: Evidence) -> Evidence:
    """Both together: a dump says more than the lines of the same rank."""
    by_name: dict[str, list[GroupKey]] = {}
    for key in dumps.members:
        by_name.setdefault(key.name, []).append(key)

    def known(key: GroupKey, rank: int) -> GroupKey:
        found = [one for one in by_name.get(key.name, ()) if rank in dumps.members[one]]
        return found[0] if len(found) == 1 else key

    states = list(dumps.states.values())
    for rank, state in lines.states.items():
        if rank not in dumps.states:
            state.operations = [replace(one, group=known(one.group, rank)) for one in state.operations]
            state.status = {known(key, rank): status for key, status in state.status.items()}
            states.append(state)
    heard = {*lines.states, *lines.reported, *lines.stuck, *lines.alive}
    world = {*dumps.world, *(heard if dumps.sized else lines.world)}  # a log may be of another attempt, or of several
    size = len(dumps.world) if dumps.sized else len(lines.world) if lines.sized else 0
    stated = 0 if dumps.sized else lines.stated_size
    both = build(states, {**lines.descriptions, **dumps.descriptions}, world, size, stated)
    both.notes, both.files = [*dumps.notes, *lines.notes], dumps.files
    both.reported, both.stuck, both.alive = lines.reported, lines.stuck, lines.alive
    return both
