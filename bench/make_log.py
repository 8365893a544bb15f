"""Makes a big log of an asynchronous RL run: 3 % of its lines are trace events, the rest is what such logs are full of.

    python bench/make_log.py --size 1e9 --seed 7 -o FILE

One orchestrator updates 16 inference servers at each step; in a tenth of the steps the updates wait behind
generations. Header clocks (HH:MM:SS) and `t=` fields tell the same time. The same arguments give the same bytes.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from pathlib import Path

EVENT_SHARE = 0.03
SERVERS = 16
QUEUED_STEPS = 0.1
MONOTONIC_S = 1000.0
BEGIN_S = 8 * 3600
_POOL = 1 << 15
_CLOCK = b"HH:MM:SS"
_E = "\x1b"


def filler(rng: random.Random) -> str:
    """A line that means nothing, its clock still to be filled in."""
    kind = rng.random()
    if kind < 0.45:
        message = (
            f"rollout {rng.randrange(10**6)} group {rng.randrange(512)} finished with reward {rng.random():.4f} "
            f"after {rng.randrange(1, 9)} turns, {rng.randrange(200, 4000)} tokens"
        )
        return f"{_E}[2mHH:MM:SS{_E}[0m {_E}[34m{_E}[1m  DEBUG{_E}[0m {_E}[34m{_E}[1m{_E}[22m{message}{_E}[0m{_E}[0m"
    if kind < 0.7:
        host = f"10.0.0.{rng.randrange(SERVERS)}"
        return dress(f'HTTP Request: POST http://{host}:8000/v1/chat/completions "HTTP/1.1 200 OK"')
    if kind < 0.9:
        client = f"10.0.0.{rng.randrange(9)}:{rng.randrange(30000, 60000)}"
        return f'INFO:     {client} - "POST /v1/chat/completions HTTP/1.1" 200 OK'
    scored = f"scoring completed for example {rng.randrange(10**5)} in {rng.random():.3f}s (judge=math-verify)"
    return f"HH:MM:SS DEBUG [verifiers.envs] {scored}"


def dress(message: str) -> str:
    """An INFO line as loguru colours it."""
    return f"{_E}[2mHH:MM:SS{_E}[0m {_E}[1m   INFO{_E}[0m {_E}[1m{_E}[22m{message}{_E}[0m{_E}[0m"


class Pool:
    """Filler lines made once and handed out by the slice, which is what makes this fast."""

    def __init__(self, rng: random.Random) -> None:
        lines = [filler(rng).encode() + b"\n" for _ in range(_POOL)]
        self._blob = b"".join(lines)
        self._starts = [0]
        for line in lines:
            self._starts.append(self._starts[-1] + len(line))

    def take(self, rng: random.Random, count: int) -> bytes:
        """`count` lines, one after another from a random place."""
        taken = []
        while count > 0:
            at = rng.randrange(_POOL)
            until = min(_POOL, at + count)
            taken.append(self._blob[self._starts[at] : self._starts[until]])
            count -= until - at
        return b"".join(taken)


Event = tuple[float, str]
"""Seconds since the run began, message."""


def update_events(rng: random.Random, step: int, sent: float, queued: bool) -> Iterator[Event]:
    """The five lines of each server's weight update."""
    for server in range(SERVERS):
        trace = f"[weights][{rng.getrandbits(32):08x}]"
        queue = rng.uniform(8.0, 30.0) if queued else rng.uniform(0.0002, 0.08)
        rpc = rng.uniform(1.2, 1.5)
        received, finished, done = sent + queue, sent + queue + 0.0001 + rpc, sent + queue + rpc + 0.0002
        url, path = f"http://10.0.0.{server}:8000", f"/models/run/step_{step}"
        wall_ms, rpc_ms = 1e3 * (done - sent), 1e3 * rpc
        yield sent, f"{trace} client.send url={url} path={path} {clock(sent)}"
        yield received, f"{trace} server.recv path=/update_weights {clock(received)}"
        yield received + 0.0001, f"{trace} rpc.start op=update_weights {clock(received + 0.0001)}"
        yield finished, f"{trace} rpc.done op=update_weights {clock(finished)} rpc_ms={rpc_ms:.1f}"
        yield done, f"{trace} client.done wall_ms={wall_ms:.1f} rpc_ms={rpc_ms:.1f} queue_ms={wall_ms - rpc_ms:.1f}"


def clock(at: float) -> str:
    """A `t=` field."""
    return f"t={MONOTONIC_S + at:.6f}"


def step_events(rng: random.Random, step: int, begin: float) -> tuple[float, list[Event]]:
    """End and events of one step: checkpoint, weight updates, generation batches, rollout statistics."""
    wait = rng.uniform(0.008, 0.03)
    events: list[Event] = [
        (begin, f"[ckpt] write.done step={step} write_ms={rng.uniform(780, 930):.1f}"),
        (begin, f"[ckpt] wait.start target_step={step}"),
        (begin + wait, f"[ckpt] wait.done target_step={step} wait_ms={1e3 * wait:.1f}"),
    ]
    now = begin + wait
    queued = rng.random() < QUEUED_STEPS
    updates = list(update_events(rng, step, now, queued))
    events += updates
    updated, batches = max(at for at, _ in updates), 0
    inflight = 128 if queued else 96
    while now < updated or batches < 6:
        duration = rng.uniform(2.4, 3.8)
        events.append((now, f"[gen] batch.start inflight={inflight} target_batch=64"))
        now += duration
        told = f"completions=64 dur_ms={1e3 * duration:.1f} inflight={inflight}"
        events.append((now, f"[gen] batch.done {told}"))
        batches += 1
    quality = f"trunc_pct={rng.uniform(1, 9):.1f} current_step={step} ckpt_step={step - 1} staleness=1"
    events.append((now, f"[rollout] {quality}"))
    return now, sorted(events, key=lambda event: event[0])


def seconds_of(begin: float, end: float, events: list[Event], rng: random.Random, pool: Pool) -> Iterator[bytes]:
    """The lines of one step, a block for each second of it."""
    first, last = int(begin), int(end)
    lines = len(events) * (1 - EVENT_SHARE) / EVENT_SHARE
    at, owed = 0, 0.0
    for second in range(first, last + 1):
        span = min(end, second + 1) - max(begin, second)
        here = at
        while at < len(events) and events[at][0] < second + 1:
            at += 1
        owed += lines * span / (end - begin)
        count, owed = int(owed), owed % 1.0
        share = count // (at - here + 1)
        block = [pool.take(rng, count - share * (at - here))]
        for _, message in events[here:at]:
            block += [dress(message).encode(), b"\n", pool.take(rng, share)]
        daytime = (BEGIN_S + second) % 86400
        told = f"{daytime // 3600:02d}:{daytime // 60 % 60:02d}:{daytime % 60:02d}"
        yield b"".join(block).replace(_CLOCK, told.encode())


def make_log(path: Path, size: float, seed: int) -> None:
    """Writes whole steps until the log has at least `size` bytes."""
    rng = random.Random(seed)
    pool = Pool(rng)
    now, step, written = 0.0, 1, 0
    with path.open("wb", buffering=1 << 20) as out:
        while written < size:
            end, events = step_events(rng, step, now)
            for block in seconds_of(now, end, events, rng, pool):
                written += out.write(block)
            now, step = end, step + 1


def main() -> None:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=float, default=1e9, help="bytes, at least (default: 1e9)")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, required=True)
    args = parser.parse_args()
    make_log(args.output, args.size, args.seed)


if __name__ == "__main__":
    main()
