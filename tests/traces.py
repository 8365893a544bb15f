"""Writes traces of PyTorch's profiler with known figures."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

MS = 1000.0
_BASE = 1_712_195_495_000_000


def event(category: str, name: str, start: float, length: float, **args: Any) -> dict[str, Any]:
    seat = {"pid": args.get("device", 0), "tid": args.get("stream", 0)} if "stream" in args else {"pid": 7, "tid": 7}
    return {"ph": "X", "cat": category, "name": name, **seat, "ts": _BASE + start, "dur": length, "args": args}


def kernel(number: int, launched: float, start: float, length: float, name: str = "gemm", stream: int = 7) -> list[Any]:
    return [
        event("cuda_runtime", "cudaLaunchKernel", launched, 5, correlation=number),
        event("kernel", name, start, length, device=0, stream=stream, correlation=number),
    ]


def starved(steps: int = 6, wait: float = 60) -> list[Any]:
    """Steps: 60 ms for the next batch, 30 ms of kernels in three, 10 ms between them and the host."""
    events: list[Any] = []
    length = wait + 40
    for step in range(steps):
        at = step * length * MS
        events.append(event("user_annotation", f"ProfilerStep#{step + 3}", at, length * MS))
        loading = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
        events.append(event("cpu_op", loading, at, wait * MS))
        events.append(event("cpu_op", "aten::linear", at + wait * MS, 30 * MS))
        for part in range(3):
            begin = at + (wait + 11 * part) * MS
            events += kernel(step * 10 + part, begin, begin + 10, 10 * MS)
    return events


def write(path: Path, events: list[Any], **around: Any) -> Path:
    text = json.dumps({"schemaVersion": 1, "traceEvents": events, **around}, indent=1)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path
