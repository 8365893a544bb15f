"""Makes a big log of an asynchronous RL run: 3 % of its lines are trace events, the rest is what such logs are full of.

    python bench/make_log.py --size 1e9 --seed 7 [--kind orchestrator] -o FILE

One orchestrator updates 16 inference servers at each step; in a tenth of the steps the updates wait behind
generations. Header clocks (HH:MM:SS) and `t=` fields tell the same time. The same arguments give the same bytes.

Kinds: `merged` holds what the orchestrator and its servers print, with events all the time. `orchestrator` is that of
prime-rl alone as a terminal shows it: every line coloured, a line a rollout, steps of a minute and more, in which 10 s
to 25 s pass between one event and the next. `vllm` is a server's log, nearly all of it access lines; `tqdm` is that of
one progress bar, in lines of 500 frames each.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

EVENT_SHARE = 0.03
SERVERS = 16
QUEUED_STEPS = 0.1
MONOTONIC_S = 1000.0
BEGIN_S = 8 * 3600
_POOL = 1 << 15
_CLOCK = b"HH:MM:SS"
_E = "\x1b"

Event = tuple[float, str]
"""Seconds since the run began, message."""
StepEvents = Callable[[random.Random, int, float], tuple[float, list[Event]]]
Filler = Callable[[random.Random], str]


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


def rollout_line(rng: random.Random) -> str:
    """A line of prime-rl's orchestrator as a terminal shows it, nearly always that of a rollout."""
    if rng.random() < 0.01:
        return dress(f"Train batch {rng.randrange(128)}/128 ({100 * rng.random():.1f}%); 192 inflight episodes")
    scored, turns = f"reward {rng.random():.4f} in {18 * rng.random():.1f}s", rng.randrange(1, 9)
    message = f"Rollout {rng.randrange(10**4)}-{rng.randrange(16)} (math) finished: {scored}, {turns} turns"
    blue = f"{_E}[34m{_E}[1m"
    place = f"{blue}{_E}[22m [train_sink.py::{rng.randrange(90, 99)}]{_E}[0m{_E}[0m"
    return f"{_E}[2mHH:MM:SS{_E}[0m {blue}  DEBUG{_E}[0m {blue}{_E}[22m{message}{_E}[0m{_E}[0m{place}"


class Pool:
    """Filler lines made once and handed out by the slice, which is what makes this fast."""

    def __init__(self, rng: random.Random, filler_of: Filler) -> None:
        lines = [filler_of(rng).encode() + b"\n" for _ in range(_POOL)]
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
        result = f"completions=64 dur_ms={1e3 * duration:.1f} inflight={inflight}"
        events.append((now, f"[gen] batch.done {result}"))
        batches += 1
    quality = f"trunc_pct={rng.uniform(1, 9):.1f} current_step={step} ckpt_step={step - 1} staleness=1"
    events.append((now, f"[rollout] {quality}"))
    return now, sorted(events, key=lambda event: event[0])


def long_step_events(rng: random.Random, step: int, begin: float) -> tuple[float, list[Event]]:
    """The same of a step that takes a minute and more: batches of 10 s to 25 s, one after the other."""
    queued = rng.random() < QUEUED_STEPS
    events: list[Event] = [(begin, f"[ckpt] write.done step={step} write_ms={rng.uniform(780, 930):.1f}")]
    events += update_events(rng, step, begin + 0.02, queued)
    now = begin
    for _ in range(4):
        duration = rng.uniform(10.0, 25.0)
        events.append((now, "[gen] batch.start inflight=192 target_batch=128"))
        now += duration
        events.append((now, f"[gen] batch.done completions=128 dur_ms={1e3 * duration:.1f} inflight=192"))
    now = max(now, *(at for at, _ in events))
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
        result = f"{daytime // 3600:02d}:{daytime // 60 % 60:02d}:{daytime % 60:02d}"
        yield b"".join(block).replace(_CLOCK, result.encode())


def steps_of(rng: random.Random, events_of: StepEvents, filler_of: Filler) -> Iterator[bytes]:
    """Blocks of a log of endless steps."""
    pool = Pool(rng, filler_of)
    now, step = 0.0, 1
    while True:
        end, events = events_of(rng, step, now)
        yield from seconds_of(now, end, events, rng, pool)
        now, step = end, step + 1


def server_blocks(rng: random.Random) -> Iterator[bytes]:
    """Blocks of a vLLM server's log: twenty access lines and more a second, its own statistics every ten seconds."""
    pool = Pool(rng, access_line)
    second = 0
    while True:
        yield pool.take(rng, rng.randrange(180, 260))
        second += 10
        result = time.strftime("%m-%d %H:%M:%S", time.gmtime(BEGIN_S + second))
        usage = f"Running: {rng.randrange(40, 64)} reqs, Waiting: {rng.randrange(9)} reqs"
        rates = (
            f"prompt throughput: {9e3 * rng.random():.1f} tokens/s, Avg generation throughput: {5e3 * rng.random():.1f}"
        )
        cache = f"GPU KV cache usage: {90 * rng.random():.1f}%, Prefix cache hit rate: {60 * rng.random():.1f}%"
        yield f"INFO {result} [loggers.py:116] Engine 000: Avg {rates} tokens/s, {usage}, {cache}\n".encode()


def access_line(rng: random.Random) -> str:
    """One line of an HTTP server's log, without a clock."""
    client = f"10.0.0.{rng.randrange(9)}:{rng.randrange(30000, 60000)}"
    return f'INFO:     {client} - "POST /v1/completions HTTP/1.1" 200 OK'


def bar_blocks(rng: random.Random) -> Iterator[bytes]:
    """Blocks of a progress bar's log: lines of 500 frames, as a bar leaves them that others print into."""
    total, at, spent = 100_000_000, 0, 0.0
    while True:
        frames = []
        for _ in range(500):
            at += 1
            spent += rng.uniform(1.1, 1.4)
            left = (total - at) * 1.25
            result = (
                f"{clock_face(spent)}<{clock_face(left)},  {rng.uniform(1.1, 1.4):.2f}s/it, loss={rng.random():.4f}"
            )
            frames.append(f"\rTraining: {100 * at // total:3d}%|{'▏':<10s}| {at}/{total} [{result}]")
        yield "".join(frames).encode() + b"\n"


def clock_face(seconds: float) -> str:
    """A time as tqdm prints it."""
    whole = int(seconds)
    minutes = f"{whole // 60 % 60:02d}:{whole % 60:02d}"
    return f"{whole // 3600}:{minutes}" if whole >= 3600 else minutes


KINDS: dict[str, Callable[[random.Random], Iterator[bytes]]] = {
    "merged": lambda rng: steps_of(rng, step_events, filler),
    "orchestrator": lambda rng: steps_of(rng, long_step_events, rollout_line),
    "vllm": server_blocks,
    "tqdm": bar_blocks,
}


def make_log(path: Path, size: float, seed: int, kind: str = "merged") -> None:
    """Writes whole blocks of a kind of log until it has at least `size` bytes."""
    written = 0
    with path.open("wb", buffering=1 << 20) as out:
        for block in KINDS[kind](random.Random(seed)):
            written += out.write(block)
            if written >= size:
                break


def main() -> None:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=float, default=1e9, help="bytes, at least (default: 1e9)")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--kind", choices=KINDS, default="merged")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, required=True)
    args = parser.parse_args()
    make_log(args.output, args.size, args.seed, args.kind)


if __name__ == "__main__":
    main()
