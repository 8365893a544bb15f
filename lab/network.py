"""The link from the streamer to the producer: between two network namespaces where the lab may make them."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

_NEAR, _FAR = "lab{port}", "link0"
"""The ends of the link: the producer's, and the streamer's."""
_TOOLS = ("ip", "tc", "unshare", "nsenter")
_PACING_RATE = 47
"""SO_MAX_PACING_RATE, which Python has no name for."""
_UNLIMITED = (1 << 32) - 1
_BURST, _LATENCY = "64kb", "200ms"
_LOOK_S = 0.02
_READY_S = 5.0


@dataclass(frozen=True, slots=True)
class Link:
    """Two addresses; the streamer's end is in its own namespace, and gone when that is."""

    APART: ClassVar[Sequence[str]] = ("unshare", "--net")
    """What to put before the command of the process that is to have a namespace of its own."""

    port: int

    @property
    def near(self) -> str:
        """The producer's address."""
        return self._address(1)

    def _address(self, host: int) -> str:
        return f"10.{200 + (self.port >> 14)}.{(self.port >> 6) & 255}.{((self.port & 63) << 2) + host}"

    @staticmethod
    def available() -> bool:
        """Namespaces can be made."""
        if os.geteuid() != 0 or not all(map(shutil.which, _TOOLS)):
            return False
        return subprocess.run([*Link.APART, "true"], capture_output=True, check=False).returncode == 0

    def connect(self, pid: int) -> None:
        """Makes the link to a process that is in a namespace of its own, or soon will be.

        Raises subprocess.CalledProcessError, TimeoutError.
        """
        deadline = time.monotonic() + _READY_S
        while os.readlink(f"/proc/{pid}/ns/net") == os.readlink("/proc/self/ns/net"):
            if time.monotonic() > deadline:
                raise TimeoutError("no network namespace")
            time.sleep(_LOOK_S)
        near = _NEAR.format(port=self.port)
        _run("ip", "link", "add", near, "type", "veth", "peer", "name", _FAR, "netns", str(pid))
        _run("ip", "address", "add", f"{self.near}/30", "dev", near)
        _run("ip", "link", "set", near, "up")
        inside = self.inside(pid)
        _run(*inside, "ip", "address", "add", f"{self._address(2)}/30", "dev", _FAR)
        _run(*inside, "ip", "link", "set", _FAR, "up")

    @staticmethod
    def inside(pid: int) -> list[str]:
        """What to put before a command that is to run in the namespace of a process."""
        return ["nsenter", f"--net=/proc/{pid}/ns/net"]


def throttle(connection: socket.socket, bytes_s: int, *, own_link: bool) -> None:
    """Lets a connection carry so much, 0 for as much as there is; in the namespace of the streamer.

    Raises OSError, subprocess.CalledProcessError.
    """
    if not own_link:
        connection.setsockopt(socket.SOL_SOCKET, _PACING_RATE, bytes_s or _UNLIMITED)
    elif bytes_s:
        limit = ("rate", f"{bytes_s * 8}bit", "burst", _BURST, "latency", _LATENCY)
        _run("tc", "qdisc", "replace", "dev", _FAR, "root", "tbf", *limit)
    else:
        _run("tc", "qdisc", "delete", "dev", _FAR, "root")


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
