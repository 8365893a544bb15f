"""Flight-recorder dumps of PyTorch, pickle and JSON, of versions 2.0 to 2.10, and of TorchComms.

A dump is read by the fields that are present, not by its version: minor versions add fields. Known differences: JSON
has lists for tuples, text for numbers and 0 for None; TorchComms lists ranks without brackets; a Gloo backend never
reports `completed`, its `pg_config` has one nameless group, and a finished entry is `retired`.
"""

from __future__ import annotations

import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from perfmon.core import counted, plain

from .model import UNKNOWN_PEER, Evidence, GroupKey, Operation, RankState, Status, build
from .unpickle import MOST_BYTES, load_plain

KEYS = (b"pg_config", b"collective_seq_id", b"pg_status", b"comm_lib_version")
"""Of which each dump has some."""
GZIP = b"\x1f\x8b"
_DIGITS = re.compile(r"\d+")
_PEER = re.compile(r"(?P<what>send|recv)\s+(?P<mine>\d+)(?:->|<-)(?P<peer>\d+|\?)$")
_MOST_ENTRIES = 1_000_000
_KEPT = 64
"""Newest entries of each group that are kept although they are finished: peers may still wait in the same ones."""
_FRAMEWORK = re.compile(r"[/\\](?:site|dist)-packages[/\\]torch[/\\]|[/\\]torch[/\\](?:distributed|_ops|utils)\b")
_STATES = frozenset(("scheduled", "started", "completed"))
_FINISHED_BY_STATE = frozenset(("nccl", "hccl", "xccl", "rccl"))
"""Backends whose watchdog reports completion; of others an entry that is `retired` is finished."""


@dataclass(slots=True)
class Dumps:
    """The dumps below a folder."""

    states: list[RankState] = field(default_factory=list)
    descriptions: dict[GroupKey, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    files: int = 0
    """Files that look like dumps, readable or not."""
    written: float = 0.0
    """Modification time of the newest of them, in seconds since 1970."""

    def evidence(self) -> Evidence:
        """The evidence that they are."""
        found = build(self.states, self.descriptions)
        found.notes, found.files = list(self.notes), self.files
        return found


def read_dump(path: Path, rank: int, dumps: Dumps) -> RankState:
    """One dump. Raises OSError or ValueError, whose text has the reason."""
    if path.stat().st_size > MOST_BYTES:
        raise ValueError(f"larger than {MOST_BYTES >> 20} MB")
    data = _unpacked(path.read_bytes())
    if not data:
        raise ValueError("empty")
    table, torn = _load_json(data) if data.lstrip()[:1] == b"{" else load_plain(data)
    if not isinstance(table, dict) or not {"entries", "pg_config", "pg_status", "version"} & table.keys():
        raise ValueError("not a flight-recorder dump")
    if not isinstance(table.get("entries") or [], (list, tuple)):
        raise ValueError("its entries are no list")
    state = state_of(table, rank, plain(path.name, 120), dumps)
    if table.get("entries") and not (state.operations or state.groups or torn):
        raise ValueError("none of its entries can be read")
    if torn:
        state.truncated = True
        state.notes.append(f"{state.source}: {counted(len(state.operations), 'entry', 'entries')} recovered")
    return state


def _unpacked(data: bytes) -> bytes:
    """The content of a gzip file, as far as it can be read; other data as it is."""
    if data[:2] != GZIP:
        return data
    unpacker = zlib.decompressobj(31)
    try:
        found = unpacker.decompress(data, MOST_BYTES)
    except zlib.error:
        raise ValueError("damaged gzip file") from None
    if unpacker.unconsumed_tail:
        raise ValueError(f"larger than {MOST_BYTES >> 20} MB")
    return found


# --- JSON ---------------------------------------------------------------------------------------------------------
def _load_json(data: bytes) -> tuple[Any, bool]:
    text = data.decode("utf-8", "replace")
    try:
        return json.loads(text), False
    except RecursionError:
        raise ValueError("nested too deeply for a dump") from None
    except ValueError:
        return _torn_json(text), True


def _torn_json(text: str) -> dict[str, Any]:
    """The complete values of a JSON dump whose end is missing: keys of the top level, and entries one by one."""
    decoder = json.JSONDecoder()
    table: dict[str, Any] = {}
    at = text.find('"entries"')
    if at >= 0:
        entries: list[Any] = []
        at = text.find("[", at) + 1
        while 0 < at < len(text):
            at = _past_blanks(text, at)
            try:
                entry, at = decoder.raw_decode(text, at)
            except (ValueError, RecursionError):
                break
            entries.append(entry)
            at = _past_blanks(text, at)
            if text[at : at + 1] != ",":
                break
            at += 1
        table["entries"] = entries
    for key in ("version", "pg_config", "pg_status"):
        place = re.search(rf'"{key}"\s*:\s*', text)
        if place is not None:
            try:
                table[key] = decoder.raw_decode(text, place.end())[0]
            except (ValueError, RecursionError):
                continue
    if not table.get("entries") and "pg_status" not in table:
        raise ValueError("torn before the first entry")
    return table


def _past_blanks(text: str, at: int) -> int:
    while text[at : at + 1] in (" ", "\n", "\r", "\t"):
        at += 1
    return at


# --- the structure of a dump --------------------------------------------------------------------------------------
def state_of(table: Mapping[str, Any], rank: int, source: str, dumps: Dumps) -> RankState:
    """The state of a rank by its dump."""
    state = RankState(rank, source)
    config = _config(table.get("pg_config"), dumps)
    state.groups = tuple(config.values())
    entries = [one for one in _listed(table.get("entries"))[:_MOST_ENTRIES] if isinstance(one, dict)]
    by_state = any(one.get("state") == "completed" for one in entries)
    ids: dict[str, GroupKey] = {}
    newer: Counter[str] = Counter()
    for at in range(len(entries) - 1, -1, -1):
        entry = entries[at]
        newer[_text(entry.get("pg_id"))] += 1
        if at and newer[_text(entry.get("pg_id"))] > _KEPT and _is_finished(entry, by_state):
            continue
        operation = _operation(entry, at, config, by_state, dumps)
        if operation is not None:
            state.operations.append(operation)
            ids[_text(entry.get("pg_id"))] = operation.group
    state.operations.sort(key=lambda one: one.record)
    limits = [ms for ms in (_whole(entry.get("timeout_ms")) for entry in entries) if ms is not None and ms > 0]
    state.timeout_s = max(limits) / 1000 if limits else state.timeout_s
    backends = {_text(one.get("profiling_name", "")).rpartition(":")[0] for one in entries}
    is_gloo = isinstance(table.get("pg_config"), dict) and "" in table["pg_config"]
    rows = table.get("pg_status")
    if not isinstance(rows, dict) or not (backends & _FINISHED_BY_STATE or not (entries or is_gloo)):
        rows = {}  # Gloo's counters include sends, and lag behind
    for number, key in _groups_by_id(rows, config, ids).items():
        row = rows[number]
        enqueued, completed = (_whole(row.get(f"last_{name}_collective")) for name in ("enqueued", "completed"))
        if enqueued is not None and completed is not None:
            state.status[key] = Status(enqueued, completed)
    return state


def _config(table: object, dumps: Dumps) -> dict[str, GroupKey]:
    """The groups of a process by name, with their members."""
    config: dict[str, GroupKey] = {}
    for name, group in table.items() if isinstance(table, dict) else ():
        if not isinstance(group, dict) or not name:  # Gloo: the only group has no name, and ranks of any
            continue
        ranks = _ranks(_text(group.get("ranks", "")))
        key = GroupKey(plain(_text(name), 120), ranks)
        config[_text(name)] = key
        dumps.descriptions[key] = plain(_text(group.get("desc", "")), 120)
    return config


@lru_cache(maxsize=1024)
def _ranks(text: str) -> tuple[int, ...]:
    """The members of a group, `[0, 1]` or `0,1`; the same list of all ranks is one object, which compares at once."""
    return tuple(sorted({int(number) for number in _DIGITS.findall(text)[:1_000_000] if len(number) < 8}))


def _operation(
    entry: Mapping[str, Any], at: int, config: Mapping[str, GroupKey], by_state: bool, dumps: Dumps
) -> Operation | None:
    """One entry; None for one that lacks what is needed, as the last one of a torn file does."""
    group = entry.get("process_group")
    state = _text(entry.get("state"))
    profiled = _text(entry.get("profiling_name", ""))
    if state not in _STATES or not profiled or not isinstance(group, (list, tuple)) or not group:
        return None
    name = _text(group[0])
    key = config.get(name)
    if key is None:
        key = GroupKey(plain(name, 120))
        if len(group) > 1:
            dumps.descriptions.setdefault(key, plain(_text(group[1]), 120))
    called = plain(profiled.rpartition(":")[2].strip(), 80)
    finished = _is_finished(entry, by_state)
    peer, what = _peer(called, key)
    is_p2p = peer is not None or bool(entry.get("is_p2p"))
    seq = _whole(entry.get("p2p_seq_id" if is_p2p else "collective_seq_id"))
    if seq is None:
        seq = _whole(entry.get("seq_id"))  # of dumps before the two were split
    sizes_in, sizes_out = entry.get("input_sizes"), entry.get("output_sizes")
    return Operation(
        group=key,
        seq=-1 if seq is None else seq,
        name=what or called,
        record=_whole(entry.get("record_id", entry.get("id"))) or at,
        finished=finished,
        peer=UNKNOWN_PEER if is_p2p and peer is None else peer,
        numel_in=_numel(sizes_in),
        numel_out=_numel(sizes_out),
        dtypes=tuple(plain(_text(one), 20) for one in _listed(entry.get("input_dtypes"))[:4]),
        created_ns=_whole(entry.get("time_created_ns")) or 0,
        site="" if finished else _site(entry.get("frames")),
    )


def _is_finished(entry: Mapping[str, Any], by_state: bool) -> bool:
    """Return true if an entry is done: NCCL retires also what timed out, other backends report nothing else."""
    if entry.get("state") == "completed":
        return True
    backend = _text(entry.get("profiling_name", "")).rpartition(":")[0]
    return bool(entry.get("retired")) and not by_state and backend not in _FINISHED_BY_STATE


def _peer(called: str, key: GroupKey) -> tuple[int | None, str]:
    """The global rank of the other side of `send 0->3`, whose numbers are places in the group."""
    match = _PEER.search(called)
    if match is None:
        return None, ""
    place = match["peer"]
    if not place.isdecimal() or int(place) >= len(key.ranks):
        return UNKNOWN_PEER, match["what"]
    return key.ranks[int(place)], match["what"]


def _groups_by_id(
    rows: Mapping[str, Any], config: Mapping[str, GroupKey], ids: Mapping[str, GroupKey]
) -> dict[str, GroupKey]:
    """The groups of the rows of `pg_status`, which are numbered by a counter of the process.

    Entries give the number of their group. Both counters grow with each new group: where as many rows as groups are
    listed, and the entries agree, the order gives the others.
    """
    numbers = sorted(
        (number for number in rows if _text(number).isdecimal() and isinstance(rows[number], dict)), key=int
    )
    known = {number: ids[_text(number)] for number in numbers if _text(number) in ids}
    names = list(config)
    if len(numbers) != len(names) or not all(name.isdecimal() for name in names):
        return known
    ordered = dict(zip(numbers, (config[name] for name in sorted(names, key=int)), strict=True))
    return ordered if all(ordered[number] == key for number, key in known.items()) else known


def _text(value: object) -> str:
    """A value as text; "" for a container: nested ones may be endless when they are written out."""
    return str(value) if isinstance(value, (str, int, float)) else ""


def _listed(value: object) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else ()


def _whole(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,20}", value):
        return int(value)
    return None


def _numel(sizes: object) -> int | None:
    """Elements of all tensors of an operation."""
    if not isinstance(sizes, (list, tuple)):
        return None
    total = 0
    for size in sizes:
        if not isinstance(size, (list, tuple)) or not all(isinstance(one, int) and one >= 0 for one in size):
            return None
        count = 1
        for one in size:
            count = min(count * one, 1 << 62)
        total += count
    return total


def _site(frames: object) -> str:
    """The call in the program: the innermost frame outside of torch."""
    for frame in _frames(frames):
        file = _text(frame.get("filename", ""))
        if file and file != "??" and not _FRAMEWORK.search(file):
            return plain(f"{file.rpartition('/')[2]}:{frame.get('line', '?')} in {frame.get('name', '?')}", 160)
    return ""


def _frames(frames: object) -> Iterator[Mapping[str, Any]]:
    stack: Iterable[Any] = frames if isinstance(frames, (list, tuple)) else ()
    return (frame for frame in stack if isinstance(frame, dict))
