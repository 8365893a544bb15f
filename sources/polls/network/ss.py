"""What `ss -tinmH` says of TCP connections: two lines each, the second one begins with a blank."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_SKMEM = re.compile(r"skmem:\(r(\d+),rb(\d+),t(\d+),tb(\d+)")
_BUSY = re.compile(r"\bbusy:(\d+)ms")
_RWND = re.compile(r"\brwnd_limited:(\d+)ms")
_SENT = re.compile(r"\bbytes_acked:(\d+)")
_RECEIVED = re.compile(r"\bbytes_received:(\d+)")
_RETRANS = re.compile(r"\bretrans:\d+/(\d+)")
_LASTRCV = re.compile(r"\blastrcv:(\d+)")
_MOST = 2000


@dataclass(frozen=True, slots=True)
class TcpSocket:
    """One end of a connection; what is cumulative counts since it was made."""

    local: str
    peer: str
    recv_q: int
    """Bytes that the application has not read."""
    send_q: int
    """Bytes that are not sent, or not acknowledged."""
    recv_share: float
    """Memory taken by what was received, as a share of its limit."""
    busy_ms: float
    rwnd_limited_ms: float
    acked: int
    received: int
    retrans: int
    lastrcv_ms: float | None


def sockets_of(text: str) -> Iterator[TcpSocket]:
    """The established connections."""
    lines, count = text.split("\n"), 0
    for at, line in enumerate(lines):
        words = line.split()
        if len(words) < 5 or words[0] != "ESTAB" or not (words[1].isdigit() and words[2].isdigit()):
            continue
        detail = lines[at + 1] if at + 1 < len(lines) and lines[at + 1][:1].isspace() else ""
        yield _socket(words, f"{' '.join(words[5:])} {detail}")
        count += 1
        if count >= _MOST:
            return


def _socket(words: list[str], detail: str) -> TcpSocket:
    memory = _SKMEM.search(detail)
    used, limit = (int(memory[1]), int(memory[2])) if memory else (0, 0)
    return TcpSocket(
        local=words[3],
        peer=words[4],
        recv_q=int(words[1]),
        send_q=int(words[2]),
        recv_share=used / limit if limit else 0.0,
        busy_ms=_number(_BUSY, detail),
        rwnd_limited_ms=_number(_RWND, detail),
        acked=int(_number(_SENT, detail)),
        received=int(_number(_RECEIVED, detail)),
        retrans=int(_number(_RETRANS, detail)),
        lastrcv_ms=_number(_LASTRCV, detail) if _LASTRCV.search(detail) else None,
    )


def _number(pattern: re.Pattern[str], text: str) -> float:
    match = pattern.search(text)
    return float(match[1]) if match else 0.0
