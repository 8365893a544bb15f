"""Pages of metrics of this machine, at the ports where engines and trainers serve them unless told otherwise."""

from __future__ import annotations

import asyncio

from .check import Finding, found, missing

PORTS = (*range(8000, 8004), *range(30000, 30004))
"""vLLM, TRL and prime-rl begin at 8000, SGLang at 30000; further engines of a machine follow."""
_KINDS = (("vllm", "vllm:"), ("sglang", "sglang:"), ("prime-rl", "trainer_step"))
"""SPEC, and what the names on its page begin with."""
_COSTS = "queues and caches of engines come from logs only"
_MEND = "SGLang needs --enable-metrics, vLLM serves metrics by default; remote: perfmon logs/ vllm=URL"


def endpoints(patience_s: float) -> Finding:
    """Default ports that respond with metrics, as the sources that poll them."""
    specs = asyncio.run(_specs(patience_s))
    if specs:
        return found(" ".join(specs))
    shown = f"{PORTS[0]}-{PORTS[3]} and {PORTS[4]}-{PORTS[7]}"
    return missing(f"no metrics at local ports {shown}", _COSTS, _MEND)


async def _specs(patience_s: float) -> list[str]:
    told = await asyncio.gather(*(_spec(port, patience_s) for port in PORTS))
    return [spec for spec in told if spec]


async def _spec(port: int, patience_s: float) -> str:
    """The SPEC that asks a port; "" for one that has no metrics."""
    from perfmon.sources.remote.http import ReplyError, Url, get, open_here

    try:
        reply = await get(open_here, Url("http", "127.0.0.1", port, "/metrics"), timeout_s=patience_s)
    except ReplyError:
        return ""
    if reply.status != 200 or b"# TYPE " not in reply.body:
        return ""
    lines = reply.body.decode("utf-8", "replace").splitlines()
    kind = next((kind for kind, begin in _KINDS if any(line.startswith(begin) for line in lines)), "prometheus")
    return f"{kind}=http://127.0.0.1:{port}"
