"""NCCL RAS: the status of all communicators of a job, queried once over TCP, as JSON (NCCL 2.28.7) or text (2.24).

RAS counts the collectives of each kind that a rank has launched. It does not count those replayed from CUDA graphs,
sends and receives, nor does it show whether a launched one finishes. A query has crashed jobs with NCCL 2.26.2 to
2.26.5, 2.27.3 to 2.27.7 and 2.29.7, so this is for a job that already hangs, and one query is all there is.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from perfmon.core import ConnectError, InputError, UsageError, counted, plain

from .verdict import Answer, Cause, Kind, Verdict

if TYPE_CHECKING:
    from perfmon.sources import Opener, Reader
    from perfmon.sources.remote import Address

PORT = 28028
MOST_BYTES = 16 << 20
_CONNECT_S = 5.0
TIMEOUT_S = 30.0
"""A query takes up to 10 s where processes do not answer."""
RISKY = "NCCL 2.26.2-2.26.5, 2.27.3-2.27.7 and 2.29.7"
"""Versions in which a query has crashed jobs."""
_TARGET = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9_.-]{1,253}):(\d{1,5})$")
_NO_COMMA = re.compile(r'("nvml_dev"\s*:\s*-?\d+)(\s*)("status")')
_BLOCK = re.compile(r"#(\d+)-(\d+) \((\w+)\) ([A-Z, ]+)")
_UP_TO = re.compile(
    r"(?:(?P<count>\d+) ranks have|Rank (?P<one>\d+) has) (?:launched up to operation (?P<op>\d+)|not launched any)"
)
_RANK = re.compile(r"Rank (\d+) .{0,120}?-- GPU (\S+) managed by process (\d+) on node (\S+)")
_ROW = re.compile(r"^\s*(\d+)\s+(\d+)\s+(\d+)\s+([\d-]+)\s+(\d+)\s+(\d+)\s+([A-Z,]+)\s+([A-Z,]+)\s*$")
_MISSING = re.compile(r"The missing rank: (\d+)")


@dataclass(slots=True)
class RasRank:
    """One rank of a communicator."""

    rank: int
    host: str = ""
    pid: int = 0
    gpu: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    problem: str = ""
    """`async error 3`, `dead`, `no answer`."""

    @property
    def process(self) -> tuple[str, int]:
        """The part that is the same in all communicators."""
        return self.host, self.pid


@dataclass(slots=True)
class Communicator:
    """One communicator; its ranks are numbered within it."""

    name: str
    size: int
    ranks: list[RasRank] = field(default_factory=list)
    missing: list[RasRank] = field(default_factory=list)


@dataclass(slots=True)
class RasReport:
    """The answer of RAS."""

    version: str = ""
    communicators: list[Communicator] = field(default_factory=list)
    is_partial: bool = False
    """Text lists only the ranks that differ."""


def parse_target(text: str) -> tuple[str, int] | None:
    """Host and port of `HOST:PORT`; None for other text. Raises UsageError for a port that is none."""
    match = _TARGET.fullmatch(text)
    if match is None:
        return None
    port = int(match[2])
    if not 0 < port < 65_536:
        raise UsageError(f"{plain(text, 80)}: {port} is no port")
    return match[1].strip("[]"), port


def parse_ras(text: str) -> tuple[Address | None, str, int] | None:
    """The host that one goes through, and host and port as that one knows them; None for other text.

    `HOST:PORT`, or `ssh://[USER@]HOST[:PORT]/HOST:PORT`: by default RAS listens at localhost of each host alone.
    Raises UsageError.
    """
    if not text.startswith("ssh://"):
        here = parse_target(text)
        return None if here is None else (None, *here)
    from perfmon.sources.remote import parse_remote

    there = parse_remote(text)
    target = None if there is None else parse_target(there.path.removeprefix("/"))
    return None if there is None or target is None else (there.address, *target)


def query(host: str, port: int, timeout_s: float = TIMEOUT_S) -> RasReport:
    """The status of the job, by one query. Raises ConnectError or InputError, one line each."""
    from perfmon.sources import open_here

    return asyncio.run(ask(open_here, host, port, timeout_s))


async def ask(opener: Opener, host: str, port: int, timeout_s: float = TIMEOUT_S) -> RasReport:
    """The status of the job, by one query over a stream of this machine or of another one.

    Raises ConnectError or InputError, one line each, or the error of the opener.
    """
    where = plain(f"{host}:{port}", 120)
    try:
        async with asyncio.timeout(timeout_s):
            async with asyncio.timeout(min(_CONNECT_S, timeout_s)):
                reader, writer = await opener(host, port)
            try:
                writer.write(b"SET FORMAT json\nSTATUS\n")
                data = await _received(reader)
            finally:
                writer.close()
    except TimeoutError:
        raise ConnectError(f"{where}: no answer within {timeout_s:g} s") from None
    except OSError as error:
        reason = f"{where}: {error.strerror or error}: is it the RAS address of a job (NCCL_RAS_ADDR)?"
        raise ConnectError(reason) from None
    if not data.strip():
        raise InputError(f"{where}: closed the connection without an answer: not NCCL RAS?")
    try:
        return await asyncio.to_thread(parse, data.decode("utf-8", "replace"))
    except ValueError as error:
        raise InputError(f"{where}: {plain(str(error), 160)}") from None


async def _received(reader: Reader) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while size < MOST_BYTES and (piece := await reader.read(1 << 16)):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


def parse(text: str) -> RasReport:
    """The report in an answer, JSON or text. Raises ValueError for what is none."""
    begin = text.find("{")
    if begin >= 0 and text[:begin].replace("OK", "").strip() in ("", "SERVER PROTOCOL 2"):
        return _from_json(text[begin:])
    if "Communicators" in text or "Job summary" in text:
        return _from_text(text)
    raise ValueError("the answer is no status of NCCL RAS")


# --- JSON ---------------------------------------------------------------------------------------------------------
def _from_json(text: str) -> RasReport:
    try:
        table = json.loads(_NO_COMMA.sub(r"\1,\2\3", text))  # 2.28.7 to 2.28.9 leave out a comma
    except (ValueError, RecursionError):
        raise ValueError("the answer ends early, or is no JSON") from None
    if not isinstance(table, dict):
        raise ValueError("the answer is no status of NCCL RAS")
    report = RasReport(plain(str(table.get("nccl_version", "")), 40))
    for one in _tables(table.get("communicators")):
        name = plain("/".join(str(one[key]) for key in ("hash", "secondary_hash") if key in one), 120)
        ranks = [_json_rank(rank) for rank in _tables(one.get("ranks"))]
        missing = [_json_rank(rank) for rank in _tables(one.get("missing_ranks"))]
        report.communicators.append(Communicator(name, _whole(one.get("size")), ranks, missing))
    return report


def _json_rank(one: Mapping[str, Any]) -> RasRank:
    status = one.get("status")
    status = status if isinstance(status, dict) else {}
    problem = ""
    if status.get("considered_dead"):
        problem = "dead"
    elif status.get("unresponsive"):
        problem = "no answer"
    elif _whole(status.get("async_error")) not in (0, 7):  # 7: in progress
        problem = f"async error {_whole(status.get('async_error'))}"
    counts = one.get("collective_counts")
    return RasRank(
        _whole(one.get("rank")),
        plain(str(one.get("host", "")), 120),
        _whole(one.get("pid")),
        plain(str(one.get("cuda_dev", "")), 20),
        {plain(str(name), 40): _whole(count) for name, count in counts.items()} if isinstance(counts, dict) else {},
        problem,
    )


def _tables(value: object) -> Sequence[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


# --- text ---------------------------------------------------------------------------------------------------------
def _from_text(text: str) -> RasReport:
    """Only ranks that differ are listed: at most a quarter of a communicator. The others have the other count."""
    report = RasReport(is_partial=True)
    sizes: dict[str, int] = {}
    groups: dict[tuple[int, str], list[int]] = {}
    """By communicator and kind the counts that lines give for several ranks."""
    current: Communicator | None = None
    kind, count = "operation", -1
    for line in text.splitlines()[:1_000_000]:
        row = _ROW.match(line)
        if row is not None:
            sizes[row[1]] = int(row[5])
            continue
        if (version := re.search(r"NCCL version (\S+)", line)) is not None:
            report.version = plain(version[1], 40)
        block = _BLOCK.match(line.strip())
        if block is not None:
            current = Communicator(block[3], sizes.get(block[1], 0))
            report.communicators.append(current)
            kind, count = "operation", -1
            continue
        if current is None:
            continue
        if (named := re.search(r"different <(\w+)> operation counts", line)) is not None:
            kind = named[1]
        if (up_to := _UP_TO.search(line)) is not None:
            count = int(up_to["op"] or 0)
            if up_to["count"]:
                groups.setdefault((len(report.communicators) - 1, kind), []).append(count)
        if (rank := _RANK.search(line)) is not None:
            _add_listed(current, int(rank[1]), rank, kind, count)
        elif (lost := _MISSING.search(line)) is not None:
            current.missing.append(RasRank(int(lost[1]), problem="no answer"))
    for (number, name), counts in groups.items():
        _complete(report.communicators[number], name, counts)
    return report


def _add_listed(current: Communicator, number: int, rank: re.Match[str], kind: str, count: int) -> None:
    if count < 0:  # under a heading of missing or dead processes
        current.missing.append(RasRank(number, plain(rank[4], 120), int(rank[3]), rank[2], problem="no answer"))
        return
    known = next((one for one in current.ranks if one.rank == number), None)
    if known is None:
        known = RasRank(number, plain(rank[4], 120), int(rank[3]), rank[2])
        current.ranks.append(known)
    known.counts[kind] = count


def _complete(current: Communicator, kind: str, counts: Sequence[int]) -> None:
    """Gives the ranks that no line lists the count of the group that was not listed one by one."""
    listed = {one.rank: one.counts[kind] for one in current.ranks if kind in one.counts}
    unlisted = [count for count in counts if count not in listed.values()]
    if not unlisted:
        return
    known = {one.rank: one for one in current.ranks}
    gone = {one.rank for one in current.missing}
    for rank in range(min(current.size, 1 << 20)):
        if rank not in listed and rank not in gone:
            one = known.setdefault(rank, RasRank(rank))
            one.counts[kind] = unlisted[0]
    current.ranks = list(known.values())


# --- who is behind ------------------------------------------------------------------------------------------------
def judge_ras(report: RasReport) -> tuple[Verdict, dict[int, str]]:
    """The ranks that have launched fewer collectives than their peers and do not wait for others, and their processes.

    Ranks are those of the largest communicator; a process that is not in it has a number below zero.
    """
    numbers, places = _numbers(report)
    ahead: set[int] = set()
    behind: dict[int, str] = {}
    dead: dict[int, str] = {}
    for at, one in enumerate(report.communicators):
        for kind in sorted({kind for rank in one.ranks for kind in rank.counts}):
            counts = {numbers[at, rank.rank]: rank.counts[kind] for rank in one.ranks if kind in rank.counts}
            most = max(counts.values())
            late = {rank for rank, count in counts.items() if count < most}
            ahead |= {rank for rank, count in counts.items() if count == most and late}
            for rank in late:
                behind.setdefault(rank, f"{kind} {counts[rank]} of {most} in communicator {one.name}")
        for lost in (*one.missing, *(rank for rank in one.ranks if rank.problem)):
            dead.setdefault(numbers[at, lost.rank], lost.problem)
    sinks = sorted(behind.keys() - ahead)
    verdict = Verdict(Answer.UNKNOWN, waiting=len(ahead))
    verdict.causes = [Cause(Kind.MISSING, (rank,), len(ahead), detail=text) for rank, text in sorted(dead.items())]
    verdict.causes += [Cause(Kind.HOST, (rank,), len(ahead), detail=behind[rank]) for rank in sinks]
    size = len(places)
    gone = tuple(sorted(rank for rank, text in dead.items() if text == "dead"))
    if gone:
        verdict.answer, verdict.ranks = Answer.NAMED, gone
        verdict.candidates = tuple(rank for rank in sinks if rank not in gone)
    elif sinks and 2 * len(sinks) < max(size, 3):
        verdict.answer, verdict.ranks = Answer.NAMED, tuple(sinks)
        verdict.candidates = tuple(sorted(set(dead) - set(sinks)))
    elif sinks or behind or dead:
        verdict.answer, verdict.candidates = Answer.CANDIDATES, tuple(sorted({*(sinks or behind), *dead}))
    if verdict.ranks or verdict.candidates:
        verdict.confidence = f"{counted(len(ahead), 'process', 'processes')} launched more"
    verdict.reasons = ["one query: the counts show who launched less, not that they stand still"]
    if verdict.answer is Answer.UNKNOWN:
        verdict.reasons.append("all ranks launched the same number: replayed CUDA graphs and sends are not counted")
    return verdict, places


def _numbers(report: RasReport) -> tuple[dict[tuple[int, int], int], dict[int, str]]:
    """By communicator and its rank the number of the process, and where the process is."""
    order = sorted(range(len(report.communicators)), key=lambda at: -report.communicators[at].size)
    known: dict[tuple[str, int], int] = {}
    numbers: dict[tuple[int, int], int] = {}
    places: dict[int, str] = {}
    for at in order:
        one = report.communicators[at]
        for rank in (*one.ranks, *one.missing):
            number = known.get(rank.process) if rank.pid else None
            if number is None:
                number = rank.rank if at == order[0] else -1 - len(places)
            if rank.pid:
                known[rank.process] = number
            numbers[at, rank.rank] = number
            gpu = f", GPU {rank.gpu}" if rank.gpu else ""
            parts = [f"host {rank.host}, pid {rank.pid}{gpu}"] if rank.pid else []
            parts += [f"rank {rank.rank} of communicator {one.name}"] if number < 0 else []
            places.setdefault(number, ", ".join(parts))
    return numbers, places
