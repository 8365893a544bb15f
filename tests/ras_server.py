"""Answers of NCCL RAS, and a server that gives one."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


def rank(number: int, count: int, **more: Any) -> dict[str, Any]:
    """A rank of a communicator in JSON."""
    return {
        "rank": number, "host": "10.0.0.1", "pid": 100 + number, "cuda_dev": number, "nvml_dev": number,
        "status": {"init_state": 0, "async_error": 0}, "collective_counts": {"AllReduce": count}, **more,
    }  # fmt: skip


def answer(*communicators: list[dict[str, Any]], missing: list[dict[str, Any]] | None = None) -> str:
    """A report; the ranks of each communicator are numbered by place."""
    return "OK\n" + json.dumps(
        {
            "nccl_version": "2.29.2",
            "communicators_count": len(communicators),
            "communicators": [
                {"hash": f"0x{at}", "size": len(ranks), "ranks": ranks, "missing_ranks": missing or []}
                for at, ranks in enumerate(communicators)
            ],
        }
    )


@contextmanager
def serving(text: str | None) -> Iterator[tuple[int, list[bytes]]]:
    """A server that answers one query as RAS does; None: it never answers."""
    received: list[bytes] = []
    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError), server.accept()[0] as connection:  # closed where nobody queries it
                received.append(connection.recv(1000))
                if text is None:
                    done.wait(30)
                else:
                    connection.sendall(text.encode())

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1], received
        finally:
            done.set()
            thread.join(5)
