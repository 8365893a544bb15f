"""Interfaces of polling: a poller, the machine that it queries, and its readings with the lines that recordings keep.

Pollers hand over readings, as a block that has the lines for recordings and evidence, too. A line is
`2026-03-02 08:15:07.118 [poll] gpu host=a100-0 name=0 util_pct=97 power_w=371.2 model=H100`; who reads a recording
makes the same readings of its lines, once.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from math import isfinite
from typing import TYPE_CHECKING, Protocol

from perfmon.core import Block, PerfmonError, plain

if TYPE_CHECKING:
    from ..http_client import Opener
    from ..shell import Shell

NEEDLE = b"[poll] "
"""Text that every line of a poller contains."""
SCHEME = "poll:/"
"""Prefix of the names of the virtual logs of pollers."""
_LINE = re.compile(
    r"\[poll\] (?P<area>[a-z]{1,20}) host=(?P<host>\S++) name=(?P<name>\S++)(?P<rest>(?: [a-z]\w*+=\S++)*+)\s*+$"
)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_LINES = re.compile(rb"[^\n]*\n|[^\n]+")
_BLANK = re.compile(r"[\s=,]+")
_WORD = 200


class Area(StrEnum):
    """The kind of thing that a reading is about, with the names of its values."""

    GPU = "gpu"
    """name: index. util_pct mem_util_pct mem_used_mb mem_total_mb power_w power_limit_w temp_c fan_pct sm_mhz
    sm_max_mhz mem_mhz pcie_rx_mb_s pcie_tx_mb_s nvlink_rx_mb_s nvlink_tx_mb_s ecc_errors energy_j throttled (0 or 1).
    Words: model uuid throttle (reasons, joined by `+`) state (ok, lost, unsupported) mine (yes, no: what
    CUDA_VISIBLE_DEVICES or Slurm gave to the run) mig."""
    PROCESS = "process"
    """name: pid. cpu_pct rss_mb uptime_s; of one on a GPU also gpu_mem_mb gpu_util_pct. Words: command gpu role folder
    (its working directory)."""
    HOST = "host"
    """name: `all`. cpu_pct (of all cores together, 0 to 100) cpu_max_pct (the busiest core) iowait_pct iowait_max_pct
    cores load1 mem_used_mb mem_total_mb swap_used_mb psi_cpu_pct psi_mem_pct psi_io_pct (some, 10 s). Words:
    cores_busy cores_iowait (a digit a core, tenths of its time; `-` for one that is off)."""
    DISK = "disk"
    """name: mount point. used_pct free_gb total_gb read_mb_s write_mb_s busy_pct full_in_s (forecast). Words: holds
    (logs, checkpoints)."""
    NIC = "nic"
    """name: interface. rx_mb_s tx_mb_s speed_mb_s errors_per_s drops_per_s."""
    SOCKET = "socket"
    """name: port. connections recv_q_bytes recv_q_share_pct send_q_bytes busy_pct rwnd_limited_pct retrans_per_s
    rate_mb_s; consumer_pct network_pct producer_pct upstream_pct (100 of the one that holds up the data, else 0; none
    where nothing flows). Words: verdict (producer, network, consumer, upstream, healthy, idle)."""
    QUEUE = "queue"
    """name: HOST:PORT/ENGINE, or `ray/…`. Of engines: running waiting kv_usage_pct gen_tps prompt_tps preemptions
    (since the last poll) preemptions_per_min prefix_hit_pct cut_pct (requests that ended at their length limit), and
    ttft, e2e, request_queue and itl by quantile (ttft_p50_s ttft_p95_s). Of queues: depth depth_min depth_max
    empty_pct full_pct consumers_waiting producers_waiting put_per_s get_per_s; of datasets data_share_pct
    production_pct (of what its reader waits for, the part that upstream takes) in_blocks out_blocks; of the object
    store store_fill_pct spilled_mb spill_mb_s. Of trainers: step step_age_s loss mfu_pct throughput_tps; new_step once
    for each. Words: kind (vllm, sglang, trl, prime-rl, ray) model role state."""
    JOB = "job"
    """name: id of a job of the scheduler. uptime_s nodes ended (0 or 1). Words: state reason title."""
    NODE = "node"
    """name: node of the scheduler. unwell (0 or 1). Words: state reason."""
    VALUE = "value"
    """name: what a command, or a metric that no other area has a place for, is called. value."""
    POLLER = "poller"
    """name: the poller. took_ms age_s. Words: state (ok, stale, failed) why."""
    TRACE = "trace"
    """What `perfmon profile` reads from a trace. name: GPU (and rank): busy_pct idle_pct late_pct launch_pct stall_pct
    comm_pct exposed_pct h2d_pct sync_pct loader_pct pageable_pct, shares of a part of the time, the same with `whole_`
    of all of it, queue (launches), step_ms and of it compute_ms comm_ms h2d_ms data_ms launch_ms stall_ms rest_ms;
    rank: speed_pct; named range: range_ms between_ms; `parts`: part, their number."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One thing at one moment. What is not known, or not supported there, is left out; it is never zero instead."""

    area: Area
    name: str
    """Name of the measured thing on its host."""
    values: Mapping[str, float] = field(default_factory=dict)
    """Numbers, by names that contain their unit; those that are not finite are left out of the line."""
    words: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PolledBlock(Block):
    """Lines of a poller, all of one moment, and the readings in them, which need no parsing."""

    host: str = ""
    at: float | None = None
    """Time by the clock of that host: seconds since 1970 as if its zone were UTC; None where the lines have none."""
    readings: tuple[Reading | None, ...] = ()
    """One a line; None for a line without one."""


def polled_block(readings: Sequence[Reading], host: str, now: datetime, offset: int, line: int) -> PolledBlock:
    """Make the block of a poll; its readings equal those parsed from its lines."""
    stamp = now.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    lines = b"".join([format_reading(reading, host, stamp) for reading in readings])
    parsed = tuple(as_recorded(reading) for reading in readings)
    return PolledBlock(lines, offset, line, host=_word(host), at=_timestamp(stamp), readings=parsed)


def polled_blocks(block: Block) -> list[PolledBlock]:
    """The readings of a block of a poller's log: of one that was recorded they are parsed here, and nowhere else."""
    if isinstance(block, PolledBlock):
        return [block]
    moments: list[tuple[str, float | None, list[bytes], list[Reading | None]]] = []
    for line in _LINES.findall(block.data):
        text = line.decode("utf-8", "replace")
        found, at = parse_reading(text), _timestamp(text[:23])
        host, reading = found or ("", None)
        if not moments or at != moments[-1][1] or host not in ("", moments[-1][0]):
            moments.append((host, at, [], []))
        moments[-1][2].append(line)
        moments[-1][3].append(reading)
    blocks: list[PolledBlock] = []
    offset, number = block.offset, block.line
    for host, at, lines, readings in moments:
        data = b"".join(lines)
        blocks.append(PolledBlock(data, offset, number, host=host, at=at, readings=tuple(readings)))
        offset, number = offset + len(data), number + len(lines)
    return blocks


def format_reading(reading: Reading, host: str, stamp: str) -> bytes:
    """The line of a reading, with its newline; what would end a word is replaced by `_`."""
    words = [f"host={_word(host)}", f"name={_word(reading.name)}"]
    words += [f"{key}={_number(value)}" for key, value in reading.values.items() if isfinite(value)]
    words += [f"{key}={_word(word)}" for key, word in reading.words.items() if word]
    return f"{stamp} [poll] {reading.area} {' '.join(words)}\n".encode()


def is_poll(log: str) -> bool:
    """True if this is the name of a poller's log."""
    return log.startswith(SCHEME)


def parse_reading(line: str) -> tuple[str, Reading] | None:
    """(host, reading) of a line, or None where it is none."""
    match = _LINE.search(line)
    if match is None or match["area"] not in _AREAS:
        return None
    pairs = dict(pair.split("=", 1) for pair in match["rest"].split())
    return match["host"], _reading(Area(match["area"]), match["name"], pairs)


def as_recorded(reading: Reading) -> Reading:
    """The reading that its line gives: live and replayed are the same."""
    pairs = {key: _number(value) for key, value in reading.values.items() if isfinite(value)}
    pairs |= {key: _word(word) for key, word in reading.words.items() if word}
    return _reading(reading.area, _word(reading.name), pairs)


def _reading(area: Area, name: str, pairs: Mapping[str, str]) -> Reading:
    """Words that are numbers are values."""
    values = {key: float(word) for key, word in pairs.items() if key not in _WORDS and _NUMBER.fullmatch(word)}
    return Reading(area, name, values, {key: word for key, word in pairs.items() if key not in values})


def _timestamp(stamp: str) -> float | None:
    try:
        return datetime.fromisoformat(stamp).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


_AREAS = frozenset(Area)
_WORDS = frozenset({
    "model", "uuid", "throttle", "state", "mine", "mig", "command", "gpu", "role", "holds", "verdict", "kind", "reason",
    "title", "why", "cores_busy", "cores_iowait",
})  # fmt: skip
"""Words, even where they look like numbers."""


def _word(text: str) -> str:
    return _BLANK.sub("_", plain(text, _WORD).strip()) or "-"


def _number(value: float) -> str:
    return f"{value:.6g}" if abs(value) < 1e6 else f"{value:.0f}"


# --- The interfaces of polling ---

DiskPaths = Callable[[], Mapping[str, str]]
"""Paths on the machine → what lies there (`logs`, `checkpoints`): their disks matter to the run."""


def no_disk_paths() -> Mapping[str, str]:
    """No path is known."""
    return {}


class PollError(PerfmonError):
    """A poll failed: one line with what, where and the fix."""


class NotAvailableError(PollError):
    """The device or program does not exist (no driver, no such command): reported once, and queried again rarely."""


class Machine(Protocol):
    """A machine that pollers query: this one, or one that a connection leads to."""

    @property
    def name(self) -> str:
        """For display; that of this machine is its host name."""

    @property
    def here(self) -> bool:
        """It is this machine: libraries can be used instead of commands."""

    def now(self) -> datetime:
        """Time of its clock."""

    async def runner(self) -> Shell:
        """A shell of its own for one poller; the poller closes it. Raises PerfmonError where there is none."""

    @property
    def opener(self) -> Opener:
        """Open streams to ports from there; raises OSError or PerfmonError when used."""

    def lines(self, command: str) -> AsyncIterator[bytes]:
        """Yield the output of a command of its shell, line by line, without newlines.

        The command is ended when the iterator is closed. Raises PollError where it cannot be run.
        """


class Poller(Protocol):
    """Queries one kind of thing periodically.

    It is called from the event loop of the polls: what may block has to go to a thread. It may take long or hang:
    its scheduler sets a deadline, reports the age of the last answer, and does not poll it again before.
    """

    @property
    def name(self) -> str:
        """Name for display: `gpu`, `host`, `vllm http://127.0.0.1:8000`."""

    @property
    def every_s(self) -> float:
        """Seconds from one question to the next."""

    async def poll(self) -> Sequence[Reading]:
        """Poll once. Raises PollError; may be cancelled at any await."""

    async def close(self) -> None:
        """Release everything."""
