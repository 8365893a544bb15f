"""SOURCEs other than logs: `gpu`, `host`, `net:PORT`, `vllm=URL`, `command:'...'` and the like."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfmon.core import UsageError, evidence_text, without_login

if TYPE_CHECKING:
    from ..remote.discovery import Discovery

BARE = ("gpu", "host", "ray", "slurm")
URLS = ("vllm", "sglang", "trl", "prime-rl", "prometheus")
FORMS = f"gpu, host, net:PORT, {', '.join(f'{kind}=URL' for kind in URLS)}, ray[=ADDRESS], slurm, command:'...'"
"""The possible forms, for messages."""
_FORM = re.compile(
    rf"(?P<kind>{'|'.join((*URLS, 'ray'))})=(?P<value>.*)|(?P<bare>{'|'.join(BARE)})"
    r"|(?P<net>net):(?P<port>.*)|(?P<run>command):(?P<command>.*)",
    re.DOTALL,
)
_COMMAND = 4000


@dataclass(frozen=True, slots=True)
class PollRequest:
    """One SOURCE of pollers."""

    kind: str
    argument: str = ""
    """A URL, a port, an address, a shell command; "" where the kind is enough."""

    @property
    def shown(self) -> str:
        """As a SOURCE, fit for display."""
        sign = {"net": ":", "command": ":"}.get(self.kind, "=") if self.argument else ""
        return evidence_text(f"{self.kind}{sign}{self.argument}", 200)


DEFAULT = (PollRequest("host"), PollRequest("gpu"))
"""Pollers of the live monitor by default."""


def parse_request(text: str) -> PollRequest | None:
    """Parse a SOURCE of a poller; None for any other SOURCE. Raises UsageError for a wrong one."""
    match = _FORM.fullmatch(text)
    if match is None:
        return None
    if match["bare"]:
        return PollRequest(match["bare"])
    if match["net"]:
        return _port(match["port"], text)
    if match["run"]:
        return _command(match["command"], text)
    kind, value = match["kind"], match["value"].strip()
    if kind == "ray":
        if not value:
            raise _wrong(text, "expected ray=HOST:PORT, ray=/TEMP/DIR or ray=#NAMESPACE/QUEUE")
        from .ray.attach import parse_ray

        parse_ray(value)
        return PollRequest(kind, value)
    from ..http_client import parse_url

    try:
        url = parse_url(value.partition("#")[0] if kind == "prometheus" else value)
    except UsageError:
        raise _wrong(text, "expected http://HOST:PORT or https://HOST:PORT") from None
    if url.scheme == "tcp":
        raise _wrong(text, f"expected {kind}=http://HOST:PORT or {kind}=https://HOST:PORT")
    if kind == "prometheus":
        from .metrics_page import parse_prometheus

        parse_prometheus(value)
    return PollRequest(kind, value)


def _port(text: str, spec: str) -> PollRequest:
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 65536):
        raise _wrong(spec, "expected a port from 1 to 65535, such as net:12321")
    return PollRequest("net", str(int(text)))


def _command(text: str, spec: str) -> PollRequest:
    if not text.strip() or len(text) > _COMMAND or any(sign in text for sign in "\0\n\r"):
        raise _wrong(spec, "expected a one-line shell command that prints a number or key=value")
    return PollRequest("command", text)


def _wrong(spec: str, expected: str) -> UsageError:
    return UsageError(f"'{without_login(spec)}': {expected}")


# --- What to poll, of what was found to run on a machine ---

_KINDS = {"vLLM": "vllm", "SGLang": "sglang", "prime-rl": "prime-rl"}


def requests_for(found: Discovery) -> list[PollRequest]:
    """The metrics pages of its processes, each once."""
    kinds: dict[int, str] = {}
    for process in found.processes:
        for port in process.metrics:
            kinds.setdefault(port, _KINDS.get(process.kind, "prometheus"))
    return [PollRequest(kind, f"http://127.0.0.1:{port}") for port, kind in sorted(kinds.items())]
