"""Hand-made readings of two hosts, four GPUs and some queues, for tests of what shows them."""

from __future__ import annotations

from collections.abc import Iterable

from perfmon.sources.pollers.reading import Area, Reading, as_recorded
from perfmon.sources.remote.model import ClockOffset, HostState, Phase
from perfmon.store.latest_readings import LatestReadings, Seen

HOSTS = ("a100-0", "a100-1")
_GPU = {"mem_total_mb": 81559.0, "power_limit_w": 400.0, "sm_max_mhz": 1410.0}


def gpu(host: int, index: int, util: float, **changes: object) -> tuple[str, Reading]:
    """A GPU of a host; texts among the changes are words, numbers values."""
    values = {
        "util_pct": util,
        "mem_used_mb": 72_000.0 - 900 * index,
        "power_w": 90 + 3.0 * util,
        "temp_c": 61.0 + index,
    }
    words = {"model": "NVIDIA_A100-SXM4-80GB", "uuid": f"GPU-{host}{index}aa-bb", "state": "ok"}
    return HOSTS[host], _reading(Area.GPU, str(index), {**_GPU, **values}, words, changes)


def reading(host: str, area: Area, name: str, **result: object) -> tuple[str, Reading]:
    """Anything else."""
    return host, _reading(area, name, {}, {}, result)


def _reading(
    area: Area, name: str, values: dict[str, float], words: dict[str, str], result: dict[str, object]
) -> Reading:
    for key, one in result.items():
        if isinstance(one, str):
            words[key] = one
        elif isinstance(one, int | float):
            values[key] = float(one)
    return Reading(area, name, values, words)


def readings(round: int = 0) -> list[tuple[str, Reading]]:
    """What all pollers say; a weight update queues in every third round."""
    slow = round % 3 == 2
    inference = 31.0 if slow else 96.0
    made = [
        gpu(0, 0, inference, mine="yes"),
        gpu(0, 1, inference - 1, mine="yes"),
        gpu(1, 0, 97.0, mine="yes", throttle="sw_power_cap", throttled=1),
        gpu(1, 1, 97.5, mine="no", temp_c=91),
    ]
    for at, host in enumerate(HOSTS):
        made += [
            reading(host, Area.HOST, "all", cpu_pct=31 - 19 * at, cpu_max_pct=88, iowait_pct=0.4 + 3 * at, cores=64,
                    load1=12.3, mem_used_mb=112_000, mem_total_mb=512_000, psi_io_pct=2.0),
            reading(host, Area.DISK, "/", used_pct=41, free_gb=512, total_gb=900),
            reading(host, Area.DISK, "/scratch/ckpt", used_pct=92, free_gb=812, total_gb=9000, write_mb_s=410.5,
                    read_mb_s=0.4, busy_pct=61, full_in_s=5400, holds="checkpoints"),
            reading(host, Area.NIC, "ib0", rx_mb_s=1100, tx_mb_s=212, speed_mb_s=25_000),
            reading(host, Area.POLLER, "gpu", took_ms=4.1, state="ok"),
            reading(host, Area.POLLER, "host", took_ms=11, state="ok"),
        ]  # fmt: skip
    made += [
        reading(HOSTS[0], Area.PROCESS, "48123", cpu_pct=212, rss_mb=9200, uptime_s=7980, gpu_mem_mb=71_000, gpu="0",
                command="vllm", role="inference"),
        reading(HOSTS[1], Area.PROCESS, "48200", cpu_pct=99, rss_mb=30_000, uptime_s=7900, gpu_mem_mb=64_000, gpu="0",
                command="torchrun", role="trainer"),
        reading(HOSTS[0], Area.QUEUE, "8000", kind="vllm", running=256 - 20 * slow, waiting=41 + 30 * slow,
                kv_usage_pct=91, gen_tps=11_200 - 6000 * slow, prompt_tps=900, preemptions_per_min=0, ttft_p95_s=0.31),
        reading(HOSTS[0], Area.SOCKET, "12321", connections=2, recv_q_bytes=3.9e6, recv_q_share_pct=93, busy_pct=99,
                rwnd_limited_pct=89, rate_mb_s=3.2, verdict="consumer"),
        reading(HOSTS[0], Area.JOB, "123456", uptime_s=7990, nodes=2, state="RUNNING", title="bottleneck_test"),
    ]  # fmt: skip
    return made


def seen(now: float, rounds: int = 12, result: Iterable[tuple[str, Reading]] | None = None) -> tuple[Seen, ...]:
    """What is known after so many rounds, one a second, the last of them at `now`."""
    machines = LatestReadings()
    for at in range(rounds):
        when = now - (rounds - 1 - at)
        for host, one in result if result is not None else readings(at):
            machines.take(host, as_recorded(one), when)
    return machines.seen()


LINKS = (
    HostState("ubuntu@a100-0", Phase.LIVE, 0.3, 0, 0, "", 3, ClockOffset(0.003, 0.001)),
    HostState("ubuntu@a100-1", Phase.STALE, 12.4, 1, 0, "", 2, ClockOffset(-0.001, 0.002)),
    HostState("login", Phase.RECONNECTING, 40.0, 1, 3, "login: connection refused", 0, None),
)
"""Two hosts that answered, one that does not."""
