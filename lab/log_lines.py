"""How the processes log: orchestrator and trainer as prime-rl, the server as vLLM and uvicorn, pipelines as on Ray."""

from __future__ import annotations

import logging
import os
import random
import sys
import threading
import time
from collections.abc import Callable

from loguru import logger

from perfmon import emit

_PRIME = "<dim>{time:HH:mm:ss}</dim> <level>{level: >7}</level> <level>{message}</level>"


def speak_like_prime(tells: bool) -> None:
    """Coloured lines with the time of day, on standard output."""
    logger.remove()
    logger.add(sys.stdout, format=_PRIME, colorize=True, level="DEBUG")
    emit.configure(logger.info if tells else _silence, logger.warning if tells else _silence)


def speak_like_vllm(tells: bool) -> None:
    """Lines with process, level, date and place; those of uvicorn without a time."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(_Vllm())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    if not tells:
        emit.configure(_silence)


def speak_like_ray(actor: str, tells: bool) -> None:
    """Lines with the actor's class and process, date and level."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter(f"({actor} pid={os.getpid()}) %(asctime)s - %(levelname)s - %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    emit.configure(None if tells else _silence)


def _silence(_: str) -> None:
    """Says nothing."""


class _Vllm(logging.Formatter):
    """vLLM's format; uvicorn's for its own lines."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        who = f"(APIServer pid={os.getpid()})"
        if record.name.startswith("uvicorn"):
            return f"{who} {record.levelname}:     {record.getMessage()}"
        when = time.strftime("%m-%d %H:%M:%S", time.localtime(record.created))
        return f"{who} {record.levelname} {when} [{record.filename}:{record.lineno}] {record.getMessage()}"


class Noise(threading.Thread):
    """Prints what a real log is full of: progress bars, tracebacks, blobs, half lines, bytes that are no text."""

    def __init__(self, rate: Callable[[], float], seed: int) -> None:
        super().__init__(name="noise", daemon=True)
        self._rate, self._random = rate, random.Random(seed)  # noqa: S311 - no secret hangs on it

    def run(self) -> None:
        """Goes on as long as the process."""
        while True:
            rate = self._rate()
            time.sleep(self._random.uniform(0.5, 1.5) / rate if rate > 0 else 0.2)
            if rate > 0:
                sys.stdout.buffer.write(self._some())
                sys.stdout.buffer.flush()

    def _some(self) -> bytes:
        share = self._random.randint(1, 99)
        bar = f"Loading shards: {share:3d}%|{'█' * (share // 10):10}| {share}/100 [00:0{share % 10}<00:09, 3.60it/s]"
        return self._random.choice(
            (
                f"{bar}\r".encode(),
                f"{bar}\n".encode(),
                b'Traceback (most recent call last):\n  File "env.py", line 12, in step\nTimeoutError: no answer\n',
                b"/usr/lib/python3/x.py:31: UserWarning: The queue of weights is deprecated, wait 30 s\n",
                b'{"level": "debug", "queue": {"depth": 12, "wait_ms": "n/a"}, "blob": "' + b"x" * 2000 + b'"}\n',
                "αβγ 日本語 \u202e tfel ot thgir\n".encode(),
                bytes(self._random.randrange(256) for _ in range(60)).replace(b"\n", b"?") + b"\n",
                f"[rank0]: W torch/nccl.cpp:4{share}] Warning: waiting for step {share} of 100 (stall? no)\n".encode(),
                b"\x1b[2K\x1b[1A\x1b[33mretrying connection in 0.5 s\x1b[0m\n",
                b"grep '[weights]' orchestrator.log | wc -l\n",
                b"\n",
            )
        )
