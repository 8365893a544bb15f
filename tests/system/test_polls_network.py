"""Who holds up a stream of data, between two network namespaces with a link that can be slow."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import datetime

import pytest
from polled import Collected, paced

from perfmon.sources.http_client import Opener, open_here
from perfmon.sources.pollers.base import LocalMachine
from perfmon.sources.pollers.network import SocketPoller
from perfmon.sources.pollers.reading import Area
from perfmon.sources.shell import BOOTSTRAP, LocalRunner, Shell

TOOLS = ("ip", "tc", "ss")
pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it makes network namespaces"),
    pytest.mark.skipif(any(shutil.which(tool) is None for tool in TOOLS), reason="needs iproute2"),
]
PORT = 12321
READS = """
import socket, sys, time
server = socket.create_server(("10.77.0.2", {port}))
peer, _ = server.accept()
while data := peer.recv({size}):
    time.sleep({rest})
"""
WRITES = """
import socket, time
for _ in range(200):
    try:
        peer = socket.create_connection(("10.77.0.2", {port}))
        break
    except OSError:
        time.sleep(0.05)
while True:
    peer.sendall(b"x" * {size})
    time.sleep({rest})
"""
_NUMBERS = itertools.count()


class Namespace:
    """One side, as a machine with a shell."""

    here = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.opener: Opener = open_here

    def now(self) -> datetime:
        """That of this machine."""
        return datetime.now()

    async def runner(self) -> Shell:
        """A shell inside."""
        return await LocalRunner.open(self.name, ("ip", "netns", "exec", self.name, "/bin/sh", "-c", BOOTSTRAP))

    def lines(self, command: str) -> AsyncIterator[bytes]:
        """Not needed."""
        return LocalMachine().lines(command)

    def python(self, code: str) -> subprocess.Popen[bytes]:
        """A program inside."""
        return subprocess.Popen(["ip", "netns", "exec", self.name, sys.executable, "-c", code])


def run(*command: str) -> None:
    """A command that must succeed."""
    subprocess.run(command, check=True, stderr=subprocess.PIPE)


@pytest.fixture
def sides() -> Iterator[tuple[Namespace, Namespace]]:
    """(sender, receiver), with a link in between."""
    number = f"{os.getpid() % 10000}{next(_NUMBERS)}"
    sender, receiver = Namespace(f"pms{number}"), Namespace(f"pmr{number}")
    try:
        run("ip", "netns", "add", sender.name)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no network namespaces here: {error.stderr.decode().strip()}")
    try:
        run("ip", "netns", "add", receiver.name)
        run("ip", "-n", sender.name, "link", "add", "v0", "type", "veth", "peer", "name", "v1", "netns", receiver.name)
        for side, link, address in ((sender, "v0", "10.77.0.1/24"), (receiver, "v1", "10.77.0.2/24")):
            run("ip", "-n", side.name, "addr", "add", address, "dev", link)
            run("ip", "-n", side.name, "link", "set", link, "up")
        yield sender, receiver
    finally:
        for side in (sender, receiver):
            subprocess.run(["ip", "netns", "del", side.name], check=False, stderr=subprocess.DEVNULL)


async def _verdict(side: Namespace, says: str) -> Collected:
    poller = SocketPoller(side, PORT)
    poller.every_s = 0.5

    def settled(result: Collected) -> bool:
        last = [one.words.get("verdict") for one in result.readings(Area.SOCKET)][-4:]
        return last == [says] * 4

    return await paced(side, [poller], settled, patience_s=60)


@pytest.mark.parametrize(
    ("read", "read_rest", "written", "write_rest", "slow", "at_sender", "at_receiver"),
    [
        pytest.param(65536, 0.02, 1 << 20, 0.0, False, "consumer", "consumer", id="consumer"),
        pytest.param(1 << 20, 0.0, 1 << 20, 0.0, True, "network", "upstream", id="network"),
        pytest.param(1 << 20, 0.0, 65536, 0.1, False, "healthy", "upstream", id="producer"),
    ],
)
async def test_the_socket_tells_who_holds_it_up(
    sides: tuple[Namespace, Namespace], read: int, read_rest: float, written: int, write_rest: float, slow: bool,
    at_sender: str, at_receiver: str,
) -> None:  # fmt: skip
    sender, receiver = sides
    if slow:
        shape = ("tbf", "rate", "20mbit", "burst", "64kb", "latency", "400ms")
        run("ip", "netns", "exec", sender.name, "tc", "qdisc", "add", "dev", "v0", "root", *shape)
    programs = [
        receiver.python(READS.format(port=PORT, size=read, rest=read_rest)),
        sender.python(WRITES.format(port=PORT, size=written, rest=write_rest)),
    ]
    try:
        seen = await _verdict(sender, at_sender)
        assert seen.readings(Area.SOCKET)[-1].values["rate_mb_s"] > 0.1
        await _verdict(receiver, at_receiver)
    finally:
        for program in programs:
            program.kill()
            program.wait()
