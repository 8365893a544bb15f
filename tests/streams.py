"""Logs of streaming pipelines in the shapes of systems that people use: queues, producers and actors, connections,
GPUs, rows of epochs. Times are seconds since the first line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

Course = float | Callable[[int], float]
"""A value, or that of each line."""
_BEGIN = datetime(2026, 3, 2, 8, 15)


def stamp(seconds: float, mark: str = ",") -> str:
    """The time of a line."""
    time = _BEGIN + timedelta(seconds=seconds)
    return f"{time:%Y-%m-%d %H:%M:%S}{mark}{time.microsecond // 1000:03d}"


def _at(course: Course, number: int) -> float:
    return course(number) if callable(course) else course


def text(*lines: Iterable[str]) -> str:
    """The lines as a log."""
    return "\n".join(line for some in lines for line in some)


def interleaved(*logs: list[str]) -> list[str]:
    """Lines of several processes in one log, in order of time."""
    return sorted((line for log in logs for line in log), key=lambda line: line[:23])


def queue(
    count: int = 60,
    name: str = "Q1",
    capacity: int = 200,
    depth: Course = 0,
    empty: Course = 96.0,
    put_wait: Course = 0.0,
    get_wait: Course = 88.0,
    put: Course = 12,
    get: Course = 12,
    every: float = 2.0,
) -> list[str]:
    """Lines of `perfmon.emit.QueueMonitor`; `put` and `get` in items a second, `empty` where the depth is 0."""
    lines, produced, consumed = [], 0, 0
    for number in range(count):
        held = int(_at(depth, number))
        produced, consumed = produced + int(_at(put, number) * every), consumed + int(_at(get, number) * every)
        found_empty = 0.0 if held else _at(empty, number)
        lines.append(
            f"{stamp(number * every)} INFO perfmon.emit: {name} utilization: {100 * held / capacity:.1f}% "
            f"({held} items) empty={found_empty:.1f}% produced={produced} consumed={consumed} "
            f"put_wait={_at(put_wait, number):.1f}% get_wait={_at(get_wait, number):.1f}%"
        )
    return lines


def gpu(count: int = 60, busy: Course = 41, every: float = 2.0, index: int = 0, pcie_mb_s: Course = 300) -> list[str]:
    """Readings of a GPU."""
    return [
        f"{stamp(number * every, '.')} [poll] gpu host=a100-0 name={index} util_pct={_at(busy, number):.0f} "
        f"mem_used_mb=31744 mem_total_mb=81559 pcie_rx_mb_s={_at(pcie_mb_s, number):.0f} state=ok"
        for number in range(count)
    ]


def connection(count: int = 60, verdict: str = "producer", every: float = 2.0) -> list[str]:
    """Readings of the connections of a port."""
    busy, rate, sent = {
        "producer": (0.1, 5.2, 0), "network": (100, 12, 1_300_000), "consumer": (99, 3.2, 3_260_000),
        "healthy": (3.6, 50, 0), "upstream": (0, 5.2, 0),
    }[verdict]  # fmt: skip
    known = ("consumer", "upstream") if verdict == "upstream" else ("consumer", "network", "producer", "upstream")
    held = " ".join(f"{who}_pct={100 * (who == verdict)}" for who in known)
    unread = 97 if verdict == "consumer" else 0.1
    return [
        f"{stamp(number * every, '.')} [poll] socket host=a100-0 name=12321 connections=1 recv_q_bytes=0 "
        f"recv_q_share_pct={unread} send_q_bytes={sent} busy_pct={busy} rwnd_limited_pct=0 rate_mb_s={rate} "
        f"retrans_per_s=0 {held} verdict={verdict}"
        for number in range(count)
    ]


def peaknet(
    batches: int = 60,
    receive: Course = 0.2,
    load: Course = 0.02,
    convert: Course = 0.02,
    hand_over: Course = 0.02,
    push: Course = 0.005,
    first_wait: float = 0.0,
    processed_until: int = 1_000_000,
) -> list[str]:
    """A producer that reads a socket, and an actor that takes what it pushed, as PeakNet's pipeline logs them.

    `processed_until`: the batch after which the actor reports nothing more. The MB/s are those since the start.
    """
    producer, actor = "(LightweightSocketProducer pid=20114) ", "(StreamingPeakNetActor pid=20340) "
    lines: list[tuple[float, str]] = []

    def log(time: float, who: str, words: str, level: str = "INFO") -> None:
        lines.append((time, f"{who}{stamp(time)} - {level} - {words}"))

    def wait(begin: float, seconds: float) -> None:
        for passed in range(10, int(seconds) + 1, 10):
            words = "Producer 0: Waiting for data on tcp://0.0.0.0:12321 (no data after 10s)"
            log(begin + passed, producer, words, "WARNING")

    log(0.0, producer, "Producer 0: Listening on tcp://0.0.0.0:12321 (advertised as tcp://node-a:12321)")
    log(0.0, actor, "Actor 0: Starting streaming from queue")
    wait(0.0, first_wait)
    now = first_wait
    log(now, producer, "Producer 0: First packet received! (60292096 bytes)")
    for batch in range(batches):
        if batch:
            wait(now, _at(receive, batch))
            now += _at(receive, batch)
        now += _at(load, batch)
        log(now, producer, f"Producer 0: np.load took {_at(load, batch):.2f}s, keys=['data', 'run', 'timestamp']")
        now += _at(convert, batch)
        words = f"tensor conversion took {_at(convert, batch):.2f}s -> 4 tensors, each shape (1, 1, 1920, 1920)"
        log(now, producer, f"Producer 0: {words}")
        now += _at(hand_over, batch)
        log(now, producer, f"Producer 0: ray.put x4 took {_at(hand_over, batch):.2f}s")
        log(now, producer, f"Producer 0: Pushing batch {batch} to Q1 (4 tensors)")
        now += _at(push, batch)
        log(now, producer, f"Producer 0: Successfully pushed batch {batch} to Q1")
        if not batch:
            log(now + 0.03, actor, "Actor 0: First batch received! type=PipelineInput")
        if (batch + 1) % 50 == 0:
            rate = 57.5 * (batch + 1) / now
            log(now, producer, f"Producer 0: {batch + 1} batches (streaming), {rate:.1f} MB/s, {batch + 1} packets")
            if batch < processed_until:
                rate = 4 * (batch + 1) / now
                log(now + 0.2, actor, f"Actor 0: Processed {batch + 1} batches, {rate:.1f} samples/s")
    lines.sort(key=lambda line: line[0])
    return [line for _, line in lines]


def epoch(data: Course, iterations: int = 600, step: float = 0.5, every: int = 10, first: float = 0.0) -> list[str]:
    """Rows of PyTorch's ImageNet example: the value of one iteration in `every`, and the mean since the epoch began."""
    rows, waited, lasted = [], 0.0, 0.0
    for number in range(iterations):
        wait = first if number == 0 and first else _at(data, number)
        waited, lasted = waited + wait, lasted + wait + step
        if number % every == 0:
            done = number + 1
            rows.append(
                f"Epoch: [0][{number:5d}/5005]\tTime {wait + step:6.3f} ({lasted / done:6.3f})\t"
                f"Data {wait:6.3f} ({waited / done:6.3f})\tLoss 6.8{number % 97:02d}e+00 (6.9000e+00)"
            )
    return rows
