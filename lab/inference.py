"""The inference server: ASGI on uvicorn, generations as streams, weight updates, vLLM's statistics."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import uvicorn

from perfmon import emit

from .clocks import live_ahead, true_monotonic
from .engine import Engine, Sequence
from .journal import Journal
from .log_lines import Noise, speak_like_vllm
from .plan import Plan

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

STATS_S = 2.0
_LOG = logging.getLogger("loggers")
_STEP = re.compile(r"step_(\d+)")
SENT = "x-lab-sent"
"""Header of an update: when the orchestrator sent it, by the lab's clock."""


class Server:
    """The app."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._journal = Journal(plan.folder / "journal", "inference", plan.started)
        self.engine = Engine(plan.knobs, self._journal)
        self._tasks: list[asyncio.Task[None]] = []

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """One connection, or the server's life."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        routes = {
            "/v1/completions": self._generate,
            "/update_weights": self._update,
            "/reload_weights": self._reload,
            "/health": self._health,
            "/metrics": self._metrics,
        }
        route = routes.get(scope["path"])
        if route is None:
            await _answer(send, 404, b"")
        else:
            await route(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self._tasks = [asyncio.create_task(self.engine.run()), asyncio.create_task(self._statistics())]
                await send({"type": "lifespan.startup.complete"})
            else:
                self.engine.stopped = True
                for task in self._tasks:
                    task.cancel()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _generate(self, scope: Message, receive: Receive, send: Send) -> None:
        requests = json.loads(await _body(receive))
        sequence = Sequence(requests["prompt_tokens"], requests["wanted"], requests["max_tokens"])
        self.engine.add(sequence)
        gone = asyncio.create_task(_gone(receive, sequence))
        try:
            await send(
                {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]}
            )
            while not sequence.over and not gone.done():
                await sequence.news.wait()
                sequence.news.clear()
                result: dict[str, object] = {"tokens": round(sequence.made), "version": sequence.version}
                if sequence.over:
                    result["finish_reason"] = sequence.reason
                await send({"type": "http.response.body", "body": _event(result), "more_body": not sequence.over})
        finally:
            gone.cancel()
            if not sequence.over:
                self.engine.abort(sequence)

    async def _update(self, scope: Message, receive: Receive, send: Send) -> None:
        sent = next((float(value) for name, value in scope["headers"] if name == SENT.encode()), None)
        requests = json.loads(await _body(receive))
        weights = Path(requests["path"]) / "weights.bin"
        step = _STEP.search(requests["path"])
        held_s = self._plan.knobs().front_end_s
        if held_s:
            time.sleep(held_s)  # noqa: ASYNC251 - that nothing else can run meanwhile is the point
        if sent is not None:
            self._journal.stretch("queue", sent - self._plan.started, self._journal.now())
        async with emit.rpc("update_weights"):
            await self.engine.load(weights, int(step[1]) if step else self.engine.version)
        await _answer(send, 200, b'{"status": "ok"}')

    async def _reload(self, scope: Message, receive: Receive, send: Send) -> None:
        await _body(receive)
        async with emit.rpc("reload_weights"):
            self.engine.version = 0
        await _answer(send, 200, b'{"status": "ok"}')

    async def _health(self, scope: Message, receive: Receive, send: Send) -> None:
        await _answer(send, 200, b"")

    async def _metrics(self, scope: Message, receive: Receive, send: Send) -> None:
        await _answer(send, 200, exposition(self.engine).encode())

    async def _statistics(self) -> None:
        """Lines as vLLM prints them; none while nothing happens, as there."""
        before, made, requests, idle = true_monotonic(), 0.0, 0, False
        counts = self.engine.counts
        while True:
            await asyncio.sleep(STATS_S)
            now = true_monotonic()
            prompt_tps = (counts.prompt_tokens - requests) / (now - before)
            generation_tps = (counts.generation_tokens - made) / (now - before)
            before, made, requests = now, counts.generation_tokens, counts.prompt_tokens
            was_idle, idle = idle, prompt_tps == 0 and generation_tps == 0
            if not (idle and was_idle):
                _LOG.info(
                    "Engine 000: Avg prompt throughput: %.1f tokens/s, Avg generation throughput: %.1f tokens/s, "
                    "Running: %d reqs, Waiting: %d reqs, GPU KV cache usage: %.1f%%, Prefix cache hit rate: 0.0%%",
                    prompt_tps,
                    generation_tps,
                    len(self.engine.running),
                    len(self.engine.waiting),
                    100.0 * self.engine.kv_usage,
                )


async def _body(receive: Receive) -> bytes:
    body: bytes = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return body or b"{}"
        body += message.get("body", b"")
        if not message.get("more_body"):
            return body


async def _gone(receive: Receive, sequence: Sequence) -> None:
    """Ends when the client has gone away."""
    while (await receive())["type"] != "http.disconnect":
        pass
    sequence.news.set()


def _event(result: Mapping[str, object]) -> bytes:
    return b"data: " + json.dumps(result).encode() + b"\n\n"


async def _answer(send: Send, status: int, body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": body})


def exposition(engine: Engine) -> str:
    """What `/metrics` says, with vLLM's names."""
    labels, counts = '{model_name="lab",engine="0"}', engine.counts
    rows = [
        ("gauge", "num_requests_running", labels, len(engine.running)),
        ("gauge", "num_requests_waiting", labels, len(engine.waiting)),
        ("gauge", "kv_cache_usage_perc", labels, round(engine.kv_usage, 4)),
        ("counter", "num_preemptions_total", labels, counts.preemptions),
        ("counter", "prompt_tokens_total", labels, counts.prompt_tokens),
        ("counter", "generation_tokens_total", labels, round(counts.generation_tokens)),
    ]
    rows += [
        ("counter", "request_success_total", f'{{model_name="lab",engine="0",finished_reason="{reason}"}}', count)
        for reason, count in counts.finished.items()
    ]
    result: list[str] = []
    for kind, name, label, value in rows:
        head = f"# TYPE vllm:{name} {kind}"
        result += [head] * (head not in result) + [f"vllm:{name}{label} {value}"]
    return "\n".join(result) + "\n"


def serve(plan: Plan) -> None:
    """Runs until it is interrupted."""
    live_ahead(plan.clock_s)
    speak_like_vllm(plan.emit)
    Noise(lambda: plan.knobs().noise_lines_s, plan.seed).start()
    app = emit.FirstByteMiddleware(Server(plan))
    config = uvicorn.Config(
        app, host="127.0.0.1", port=plan.port, log_config=None, lifespan="on", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    _LOG.info("vLLM API server version lab, pid %d", os.getpid())
    _LOG.info("non-default args: {'port': %d, 'max_num_seqs': %d}", plan.port, plan.knobs().slots)
    with suppress(KeyboardInterrupt):
        server.run()
