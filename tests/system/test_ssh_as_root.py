"""Faults and logins of a real SSH host that only root can bring about: a full disk, a cut network, a user's password.

Not marked `system`: a container may forbid them even to root.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest
from remotely import Writer, following, through, until
from sshd import AVAILABLE, Sshd
from terminals import PERFMON, Server, wait

from perfmon.sources.remote.model import Phase

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(not AVAILABLE, reason="needs sshd"),
]
PASSWORD = secrets.token_urlsafe(12)
HERE, THERE = "10.203.77.1", "10.203.77.2"


def root(*command: str) -> None:
    """Does what a container may forbid."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{command[0]}: {done.stderr.strip()}")


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    """A server."""
    made = Sshd(tmp_path / "sshd")
    made.start()
    yield made
    made.stop()


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system that is soon full."""
    folder = tmp_path / "small"
    folder.mkdir()
    root("mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder))
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


class Filling:
    """Writes lines until there is no room for them."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)
        self._count = 0
        self.written = bytearray()
        """What came to stand in the file."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, line: bytes) -> bool:
        """Whether there was room; the line that meets the end may be cut."""
        try:
            self.written += line[: self._file.write(line)]
        except OSError as error:
            return error.errno != errno.ENOSPC
        return True

    async def fill(self) -> None:
        """Until the disk is full, and on for a while: nothing of that is there."""
        refused = 0
        while refused < 50:
            line = b"line %d of the run, with what a run has to say\n" % self._count
            refused += not self.write(line)
            self._count += 1
            if self._count % 50 == 0:
                await asyncio.sleep(0.01)

    @property
    def whole(self) -> bytes:
        """Its whole lines."""
        return bytes(self.written[: self.written.rfind(b"\n") + 1])


async def test_the_disk_of_the_logs_is_full(sshd: Sshd, small: Path) -> None:
    path, ballast = small / "run.log", small / "ballast"
    ballast.write_bytes(b"\0" * 350_000)
    with Filling(path) as log:
        async with following(sshd, path) as (seen, host):
            await log.fill()
            await until(lambda: seen.of("run.log") == log.whole)
            ballast.unlink()
            assert log.write(b"there is room again\n")
            await log.fill()
            await until(lambda: seen.of("run.log") == log.whole)
            os.truncate(path, 0)
            log.written.clear()
            before = len(seen.of("run.log"))
            assert log.write(b"the end\n")
            await until(lambda: seen.of("run.log").endswith(b"the end\n"), seen.notices)
            assert before > 400_000
            assert seen.of("run.log").count(b"there is room again") == 1
            assert [notice.kind for notice in seen.notices] == ["truncated"]
            assert host.state.reconnects == 0


@pytest.fixture
def far(tmp_path: Path) -> Iterator[Sshd]:
    """A server on a machine of its own, as far as the network goes."""
    if shutil.which("ip") is None:
        pytest.skip("needs ip")
    name = f"perfmon{secrets.token_hex(3)}"
    root("ip", "netns", "add", name)
    near, other = f"{name[-6:]}a", f"{name[-6:]}b"
    made = Sshd(tmp_path / "sshd", address=THERE, within=("ip", "netns", "exec", name))
    try:
        root("ip", "link", "add", near, "type", "veth", "peer", "name", other, "netns", name)
        root("ip", "addr", "add", f"{HERE}/30", "dev", near)
        root("ip", "link", "set", near, "up")
        root("ip", "-n", name, "addr", "add", f"{THERE}/30", "dev", other)
        root("ip", "-n", name, "link", "set", other, "up")
        made.link = (name, other)
        made.start()
        yield made
    finally:
        made.stop()
        subprocess.run(["ip", "netns", "del", name], check=True)


async def test_the_link_to_the_host_goes_down_without_a_word(far: Sshd, tmp_path: Path) -> None:
    states = []

    async def down(_: Writer) -> None:
        name, link = far.link
        await asyncio.sleep(0.3)
        root("ip", "-n", name, "link", "set", link, "down")
        await asyncio.sleep(4.0)
        states.append(far.sessions())  # nobody told the server either
        root("ip", "-n", name, "link", "set", link, "up")

    config = "  ServerAliveInterval 1\n  ServerAliveCountMax 2\n  ConnectTimeout 2\n"
    host = await through(far, tmp_path, down, config)
    assert states[0]
    assert host.state.phase is Phase.LIVE


def dropped(*command: str) -> int:
    """The packets that a link has lost."""
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    count = re.search(r"dropped (\d+)", shown.stdout)
    assert count is not None
    return int(count[1])


async def test_a_slow_link_that_loses_packets_loses_no_line(far: Sshd, tmp_path: Path) -> None:
    name, link = far.link
    inside = ("ip", "netns", "exec", name, "tc")
    # Its queue has room for three packets: what comes faster than it sends is lost, as on a link that many share.
    shape = ("tbf", "rate", "800kbit", "burst", "1600", "limit", "4600")
    root(*inside, "qdisc", "add", "dev", link, "root", *shape)
    writer = Writer(tmp_path / "run.log")
    writer.write(2000)
    async with following(far, writer.path) as (seen, host):
        await until(lambda: host.logs.caught_up and len(seen.lines) == 2000)
        await writer.go_on(2.0)
        writer.path.rename(tmp_path / "run.log.1")
        await writer.go_on(2.0)
        await writer.arrived(seen)
        assert host.state.phase is Phase.LIVE
        assert host.state.reconnects == 0
        assert not [notice for notice in seen.notices if notice.kind == "lost"]
    assert dropped(*inside, "-s", "qdisc", "show", "dev", link) > 10


# --- logins on a terminal -----------------------------------------------------------------------------------------
@pytest.fixture
def user() -> Iterator[str]:
    """A user who has a password, and a log at home."""
    name = f"perfmon{secrets.token_hex(3)}"
    root("useradd", "--create-home", "--shell", "/bin/sh", name)
    try:
        subprocess.run(["chpasswd", "-c", "SHA512"], input=f"{name}:{PASSWORD}\n", text=True, check=True)
        from perfmon.demo.output import write_demo

        logs = Path(f"/home/{name}/logs")
        write_demo(logs)
        for path in (logs, *logs.iterdir()):
            path.chmod(0o755)
        yield name
    finally:
        subprocess.run(["userdel", "--force", "--remove", name], check=True, capture_output=True)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Terminals."""
    if shutil.which("tmux") is None:
        pytest.skip("needs tmux")
    made = Server(tmp_path_factory.mktemp("tmux"))
    yield made
    made("kill-server")


@pytest.mark.parametrize(
    ("options", "asks"),
    [
        ("PasswordAuthentication yes\nUsePAM no", "password of {user}@"),
        ("KbdInteractiveAuthentication yes\nUsePAM yes", "Password:"),
    ],
)
def test_a_password_is_typed_on_a_terminal_and_never_seen(
    server: Server, user: str, tmp_path: Path, options: str, asks: str
) -> None:
    sshd = Sshd(tmp_path / "sshd", extra=f"{options}\nPubkeyAuthentication no", home=Path("/home", user))
    sshd.start()
    try:
        command = f"{PERFMON} ssh {user}@box --ssh-config {sshd.config} --log '~/logs/*.log' --history all"
        window = server.open(tmp_path, command)
        window.shows(asks.format(user=user))
        window.type("wrong")
        requests = asks.format(user=user)
        wait(lambda: window.text.count(requests) == 2, window.text)
        window.type(PASSWORD)
        window.shows("FRONT-END QUEUE")
        sshd.cut()
        with Path(f"/home/{user}/logs/orchestrator.log").open("a") as log:
            log.write("the connection was made again\n")
        window.shows("the connection was made again")  # without another question
        window.press("q")
        window.shows("left: 0")
        raw = window.raw.read_bytes()
        assert PASSWORD.encode() not in raw
        assert b"wrong" not in raw
        assert window.sane
    finally:
        sshd.stop()
