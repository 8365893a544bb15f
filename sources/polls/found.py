"""What to ask pollers for, of what was found to run on a machine."""

from __future__ import annotations

from ..remote.discovery import Discovery
from .asked import Asked

_KINDS = {"vLLM": "vllm", "SGLang": "sglang", "prime-rl": "prime-rl"}


def asked_of(found: Discovery) -> list[Asked]:
    """The metrics pages of its processes, each once."""
    kinds: dict[int, str] = {}
    for process in found.processes:
        for port in process.metrics:
            kinds.setdefault(port, _KINDS.get(process.kind, "prometheus"))
    return [Asked(kind, f"http://127.0.0.1:{port}") for port, kind in sorted(kinds.items())]
