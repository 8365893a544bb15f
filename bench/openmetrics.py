"""What reading a page of metrics costs beside prometheus-client's parser: vLLM with many engines, and Ray's.

python bench/openmetrics.py [--kb N] [--rounds N]
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections.abc import Callable, Collection

from prometheus_client.parser import text_string_to_metric_families

from perfmon.sources.pollers.engines import EngineValues, by_engine, load_mapping
from perfmon.sources.pollers.metrics_page import off_loop, read_samples
from perfmon.sources.pollers.ray.poller import NAMES, RayWaits

HISTOGRAMS = (
    "time_to_first_token_seconds", "e2e_request_latency_seconds", "inter_token_latency_seconds",
    "request_queue_time_seconds", "request_prefill_time_seconds", "request_decode_time_seconds",
    "request_inference_time_seconds", "iteration_tokens_total", "request_prompt_tokens", "request_generation_tokens",
    "request_params_max_tokens", "request_params_n", "request_max_num_generation_tokens",
)  # fmt: skip
LIMITS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0)
PLAIN = (
    "num_requests_running", "num_requests_waiting", "kv_cache_usage_perc", "num_preemptions_total",
    "generation_tokens_total", "prompt_tokens_total", "prefix_cache_hits_total", "prefix_cache_queries_total",
)  # fmt: skip


def vllm_page(kb: int) -> bytes:
    """As many engines as fill the page, each with all of its histograms."""
    rows: list[str] = []
    size, engine, draw = 0, 0, random.Random(7)
    while size < kb * 1000:
        labels = f'engine="{engine}",model_name="Qwen/Qwen2.5-7B-Instruct"'
        new = [f"vllm:{name}{{{labels}}} {draw.random() * 1e5}" for name in PLAIN]
        for name in HISTOGRAMS:
            counts = sorted(draw.randrange(100_000) for _ in range(len(LIMITS) + 1))
            limits = [*map(str, LIMITS), "+Inf"]
            new += [f'vllm:{name}_bucket{{{labels},le="{le}"}} {n}.0' for le, n in zip(limits, counts, strict=True)]
            new.append(f"vllm:{name}_sum{{{labels}}} {draw.random() * 1e6}")
        rows += new
        size += sum(map(len, new)) + len(new)
        engine += 1
    return "\n".join(rows).encode()


def ray_page(kb: int) -> bytes:
    """Ray's long label sets; of its families queues are a few lines."""
    common = 'Component="core_worker",NodeAddress="10.0.0.7",SessionName="session_2026-03-02_08-15-07_118000_4242"'
    scope = 'Version="2.60.0",otel_scope_name="ray._private.telemetry.open_telemetry_metric_recorder"'
    rows = [
        f'ray_tasks{{{common},Name="_QueueActor.{call}",Source="{who}",State="{state}",{scope}}} 2.0'
        for call in ("get", "put") for who in ("executor", "owner") for state in ("RUNNING", "FINISHED", "SUBMITTED")
    ]  # fmt: skip
    size, number = 0, 0
    while size < kb * 1000:
        rows.append(
            f'ray_operation_run_time_ms_bucket{{{common},Name="op{number % 97}",le="{number % 19}.0",{scope}}} 5.0'
        )
        size += len(rows[-1])
        number += 1
    return "\n".join(rows).encode()


def least_ms(call: Callable[[], object], rounds: int) -> float:
    """The least of several: whatever else the machine does only adds."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return 1e3 * min(times)


async def held_ms(page: bytes, read: Callable[[bytes], object]) -> float:
    """The longest that a loop which wakes up each millisecond was kept from it while a page was read."""
    late, over = 0.0, asyncio.Event()

    async def tick() -> None:
        nonlocal late
        while not over.is_set():
            began = time.perf_counter()
            await asyncio.sleep(0.001)
            late = max(late, time.perf_counter() - began - 0.001)

    ticking = asyncio.create_task(tick())
    await asyncio.sleep(0.01)
    late = 0.0
    await off_loop(page, read)
    over.set()
    await ticking
    return 1e3 * late


def comparison(name: str, page: bytes, names: Collection[str], rounds: int) -> str:
    """The row of one page."""
    result, text = read_samples(page, names).found, page.decode()
    values, waits = EngineValues(load_mapping("vllm")), RayWaits()

    def read(data: bytes) -> object:
        return read_samples(data, names)

    def work_out() -> object:
        now = time.monotonic()
        return waits.take(result, now) if name == "ray" else values.take(by_engine(result, {}), now)

    def client() -> object:
        return [list(family.samples) for family in text_string_to_metric_families(text)]

    mine, theirs = least_ms(lambda: read(page), rounds), least_ms(client, 3)
    held = min(asyncio.run(held_ms(page, read)) for _ in range(rounds))
    return (
        f"{name:6}{len(page) / 1e3:6.0f}{page.count(10) + 1:8}{mine:7.1f} ms{len(result):8}"
        f"{least_ms(work_out, rounds):9.1f} ms{held:8.1f} ms{theirs:7.0f} ms{mine / theirs:8.3f}"
    )


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kb", type=int, default=900)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    print(f"{'page':6}{'KB':>6}{'lines':>8}{'read':>10}{'samples':>8}{'worked out':>12}", end="")
    print(f"{'loop held':>11}{'client':>10}{'ratio':>8}")
    print(comparison("vllm", vllm_page(args.kb), load_mapping("vllm").names, args.rounds))
    print(comparison("ray", ray_page(args.kb), NAMES, args.rounds))


if __name__ == "__main__":
    main()
