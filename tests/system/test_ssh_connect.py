"""Connections to a real OpenSSH server: configuration, keys, questions, and why one cannot be made."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import asyncssh
import pytest
from sshd import AVAILABLE, Sshd, fingerprint, free_port, keygen, ran
from terminals import wait

from perfmon.sources.remote.connection import Cause, HostError, Login, dial, open_shell
from perfmon.sources.remote.model import Address

pytestmark = [pytest.mark.system, pytest.mark.skipif(not AVAILABLE, reason="needs sshd")]
needs_ssh = pytest.mark.skipif(shutil.which("ssh") is None, reason="needs ssh")
BOX = Address("box")
WORDS = "open sesame"
PROXY = """
import os, socket, sys, threading
print("noise", file=sys.stderr, flush=True)
far = socket.create_connection((sys.argv[1], int(sys.argv[2])))
def pump(read, write):
    while data := read():
        write(data)
threading.Thread(target=pump, args=(lambda: os.read(0, 9999), far.sendall), daemon=True).start()
pump(lambda: far.recv(9999), lambda data: os.write(1, data))
"""


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """A server."""
    made = Sshd(tmp_path_factory.mktemp("sshd"))
    made.start()
    yield made
    made.stop()


def login(sshd: Sshd, *answers: str, **options: object) -> tuple[Login, list[str]]:
    """How the tests' user logs in, and what it was asked."""
    requests: list[str] = []
    left = list(answers)

    async def ask(prompt: str, _echo: bool) -> str | None:
        requests.append(prompt)
        return left.pop(0) if left else None

    made = Login(ask, config=(str(sshd.config),), known_hosts=(str(sshd.known),))
    for name, value in options.items():
        setattr(made, name, value)
    return made, requests


async def message_of(address: Address, made: Login, script: str = "echo hi") -> str:
    """What a script says there."""
    connection = await dial(address, made)
    try:
        shell = await open_shell(connection, address.shown)
        return (await shell.run(script)).text
    finally:
        connection.close()
        await connection.wait_closed()


async def refused(address: Address, made: Login) -> HostError:
    """Why it cannot be reached."""
    with pytest.raises(HostError) as caught:
        await message_of(address, made)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{address.shown}: ")
    return caught.value


async def test_a_host_is_reached_as_the_configuration_says(sshd: Sshd) -> None:
    made, requests = login(sshd)
    assert await message_of(BOX, made) == "hi\n"
    assert requests == []


async def test_an_unknown_key_is_shown_asked_about_and_learned(sshd: Sshd, tmp_path: Path) -> None:
    known = tmp_path / "ssh" / "known"
    made, requests = login(sshd, "yes", known_hosts=(str(known),))
    assert await message_of(BOX, made) == "hi\n"
    assert fingerprint(sshd.host_key) in requests[0]
    assert known.read_text() == sshd.known.read_text()
    assert known.stat().st_mode & 0o777 == 0o600
    assert await message_of(BOX, made) == "hi\n"
    assert len(requests) == 1


@pytest.mark.parametrize("answers", [("no",), ()])
async def test_an_unknown_key_is_never_believed_silently(sshd: Sshd, tmp_path: Path, answers: tuple[str, ...]) -> None:
    known = tmp_path / "known"
    made, requests = login(sshd, *answers, known_hosts=(str(known),))
    assert (await refused(BOX, made)).cause is Cause.KEY_UNKNOWN
    assert len(requests) == 1
    assert not known.exists()


async def test_accept_new_learns_without_asking(sshd: Sshd, tmp_path: Path) -> None:
    known = tmp_path / "known"
    known.write_text("other.example ssh-ed25519 broken")  # no newline at its end
    made, requests = login(sshd, known_hosts=(str(known),), accept_new=True)
    assert await message_of(BOX, made) == "hi\n"
    assert requests == []
    assert known.read_text() == "other.example ssh-ed25519 broken\n" + sshd.known.read_text()


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa"])
async def test_a_changed_key_is_refused_even_with_accept_new(sshd: Sshd, tmp_path: Path, kind: str) -> None:
    other = tmp_path / "other"
    keygen(other, kind)
    known = tmp_path / "known"
    known.write_text(f"[127.0.0.1]:{sshd.port} {other.with_suffix('.pub').read_text()}")
    before = known.read_text()
    made, requests = login(sshd, "yes", known_hosts=(str(known),), accept_new=True)
    error = await refused(BOX, made)
    assert error.cause is Cause.KEY_CHANGED
    assert f"ssh-keygen -R '[127.0.0.1]:{sshd.port}'" in str(error)
    assert (requests, known.read_text()) == ([], before)


async def test_a_configuration_that_checks_no_keys_is_not_followed(sshd: Sshd, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host *\n UserKnownHostsFile none\n GlobalKnownHostsFile none\n" + sshd.config.read_text())
    made, requests = login(sshd, config=(str(config),), known_hosts=None)
    assert (await refused(BOX, made)).cause is Cause.KEY_UNKNOWN
    assert len(requests) == 1


async def test_a_way_over_another_host(sshd: Sshd, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(f"Host far\n HostName 127.0.0.1\n Port {sshd.port}\n IdentityFile {sshd.key}\n ProxyJump box\n")
    made, _ = login(sshd, config=(str(config), str(sshd.config)))
    connection = await dial(Address("far"), made)
    try:
        shell = await open_shell(connection, "far")
        client = (await shell.run('echo "$SSH_CONNECTION"')).text.split()
    finally:
        connection.close()
        await connection.wait_closed()
    assert client[3] == str(sshd.port)
    assert connection.get_extra_info("peername") is None or connection.get_extra_info("peername")[1] != sshd.port


async def test_a_proxy_command_that_talks_on_stderr(sshd: Sshd, tmp_path: Path) -> None:
    config = tmp_path / "config"
    proxy = tmp_path / "proxy.py"
    proxy.write_text(PROXY)
    config.write_text(
        f"Host far\n HostName 127.0.0.1\n Port {sshd.port}\n IdentityFile {sshd.key}\n"
        f" ProxyCommand {sys.executable} {proxy} %h %p\n"
    )
    made, _ = login(sshd, config=(str(config),))
    assert await message_of(Address("far"), made) == "hi\n"


@needs_ssh
async def test_a_proxy_command_that_is_ssh_itself(sshd: Sshd, tmp_path: Path) -> None:
    (tmp_path / "inner").write_text(sshd.config.read_text())
    made, _ = login(sshd)
    made.config = (str(tmp_path / "config"),)
    (tmp_path / "config").write_text(
        f"{sshd.config.read_text()}  ProxyCommand ssh -F {tmp_path}/inner -o BatchMode=yes -W %h:%p box\n"
    )
    assert await message_of(BOX, made) == "hi\n"


async def test_a_proxy_command_that_fails_is_told(sshd: Sshd, tmp_path: Path) -> None:
    (tmp_path / "config").write_text(f"{sshd.config.read_text()}  ProxyCommand /nowhere/at/all %h\n")
    error = await refused(BOX, login(sshd, config=(str(tmp_path / "config"),))[0])
    assert "its ProxyCommand exited" in str(error)


@needs_ssh
@pytest.mark.parametrize(
    "more",
    [
        'Match exec "test %h = 127.0.0.1"\n  ServerAliveInterval 1m\n',
        "  ConnectTimeout 10s\n  CertificateFile /nowhere/cert.pub\n",
        "  PKCS11Provider /nowhere/lib.so  # of my key\n",
    ],
)
async def test_what_ssh_understands_is_understood(sshd: Sshd, tmp_path: Path, more: str) -> None:
    (tmp_path / "config").write_text(sshd.config.read_text() + more)
    assert await message_of(BOX, login(sshd, config=(str(tmp_path / "config"),))[0]) == "hi\n"


@needs_ssh
async def test_where_a_match_by_command_leads(sshd: Sshd, tmp_path: Path) -> None:
    text = sshd.config.read_text().replace("Host box", 'Match originalhost box exec "test %n = box"')
    (tmp_path / "included").write_text(text)
    (tmp_path / "config").write_text(f"Include {tmp_path}/inc*\n")
    assert await message_of(BOX, login(sshd, config=(str(tmp_path / "config"),))[0]) == "hi\n"


async def test_a_way_that_ends_half_way_leaves_no_connection(sshd: Sshd, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(f"{sshd.config.read_text()}Host far\n  ProxyJump box,127.0.0.1:{free_port()}\n")
    made, _ = login(sshd, config=(str(config),))
    before = len(sshd.sessions())
    for _ in range(3):
        with pytest.raises(HostError):
            await dial(Address("far"), made)
    await asyncio.to_thread(wait, lambda: len(sshd.sessions()) <= before)


async def test_too_many_keys_are_told(sshd: Sshd, tmp_path: Path) -> None:
    lines = []
    for at in range(7):
        keygen(tmp_path / f"key{at}")
        lines.append(f"  IdentityFile {tmp_path}/key{at}\n")
    (tmp_path / "config").write_text(
        sshd.config.read_text().replace("  IdentityFile", "".join(lines) + "  IdentityFile")
    )
    error = await refused(BOX, login(sshd, config=(str(tmp_path / "config"),))[0])
    assert error.cause is Cause.LOGIN
    assert "IdentitiesOnly" in str(error)


async def test_a_passphrase_is_asked_for_once_for_all_hosts(sshd: Sshd, tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    keygen(locked, "ed25519", WORDS)
    allowed = sshd.folder / "authorized_keys"
    before = allowed.read_text()
    allowed.write_text(before + locked.with_suffix(".pub").read_text())
    (tmp_path / "config").write_text(
        sshd.config.read_text().replace(str(sshd.key), str(locked)).replace("Host box", "Host box*")
    )
    made, requests = login(sshd, "a slip of the finger", WORDS, config=(str(tmp_path / "config"),))
    try:
        assert await asyncio.gather(*(message_of(Address(f"box{at}"), made) for at in range(4))) == ["hi\n"] * 4
    finally:
        allowed.write_text(before)
    assert len(requests) == 2


async def test_a_key_with_a_passphrase(sshd: Sshd, tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    keygen(locked, "ed25519", "open sesame")
    allowed = sshd.folder / "authorized_keys"
    before = allowed.read_text()
    allowed.write_text(before + locked.with_suffix(".pub").read_text())
    config = tmp_path / "config"
    config.write_text(sshd.config.read_text().replace(str(sshd.key), str(locked)))
    made, requests = login(sshd, "open sesame", config=(str(config),))
    try:
        assert await message_of(BOX, made) == "hi\n"
        assert await message_of(BOX, made) == "hi\n"  # not asked again
    finally:
        allowed.write_text(before)
    assert len(requests) == 1
    assert "open sesame" not in repr(made)


async def test_failures_are_one_line_with_the_mend(sshd: Sshd, tmp_path: Path) -> None:
    made, _ = login(sshd)
    assert "unknown host" in str(await refused(Address("nowhere.invalid"), made))
    assert "connection refused" in str(await refused(Address("127.0.0.1", None, free_port()), made))
    keygen(tmp_path / "stranger")
    config = tmp_path / "config"
    config.write_text(sshd.config.read_text().replace(str(sshd.key), str(tmp_path / "stranger")))
    error = await refused(BOX, login(sshd, config=(str(config),))[0])
    assert error.cause is Cause.LOGIN
    assert "ssh-add" in str(error)
    config.write_text("Host box\n  Port many\n")
    assert (await refused(BOX, login(sshd, config=(str(config),))[0])).cause is Cause.CONFIG


async def test_a_server_that_never_answers_does_not_hold_anybody_up(sshd: Sshd, tmp_path: Path) -> None:
    config = tmp_path / "config"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        config.write_text(f"Host slow\n HostName 127.0.0.1\n Port {port}\n ConnectTimeout 1\n")
        error = await refused(Address("slow"), login(sshd, config=(str(config),))[0])
    assert "no answer" in str(error)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("/bin/false", "no usable POSIX shell"),
        ("echo only sftp here", "only sftp here"),
        ('rbash -c "$SSH_ORIGINAL_COMMAND"', "restricted"),
    ],
)
async def test_a_restricted_account_is_told(tmp_path: Path, command: str, words: str) -> None:
    sshd = Sshd(tmp_path / "sshd", forced=command)
    sshd.start()
    try:
        error = await refused(BOX, login(sshd)[0])
    finally:
        sshd.stop()
    assert error.cause is Cause.SHELL
    assert words in str(error)


async def test_what_a_login_prints_is_no_output(tmp_path: Path) -> None:
    noise = tmp_path / "noisy"
    noise.write_text(
        '#!/bin/sh\necho "welcome B"; printf "no newline"; echo trouble >&2\nexec /bin/sh -c "$SSH_ORIGINAL_COMMAND"\n'
    )
    noise.chmod(0o755)
    banner = tmp_path / "banner"
    banner.write_text("do not enter\n")
    sshd = Sshd(tmp_path / "sshd", forced=str(noise), extra=f"Banner {banner}")
    sshd.start()
    try:
        assert await message_of(BOX, login(sshd)[0]) == "hi\n"
    finally:
        sshd.stop()


class Asking(asyncssh.SSHServer):
    """A server that wants a password, or asks two questions."""

    def __init__(self, how: str) -> None:
        self._how = how
        self._tries = 0

    def begin_auth(self, username: str) -> bool:
        """Nobody gets in without."""
        return True

    def password_auth_supported(self) -> bool:
        """It may want a password."""
        return self._how == "password"

    def validate_password(self, username: str, password: str) -> bool:
        """The right one."""
        return password == WORDS

    def kbdint_auth_supported(self) -> bool:
        """It may ask questions."""
        return self._how == "questions"

    def get_kbdint_challenge(
        self, username: str, lang: str, submethods: str
    ) -> tuple[str, str, str, list[tuple[str, bool]]]:
        """Two of them."""
        return "", "", "", [("Password: ", False), ("Code \x1b[2J: ", True)]

    def validate_kbdint_response(self, username: str, responses: Sequence[str]) -> bool:
        """The right ones."""
        return list(responses) == [WORDS, "123456"]


@pytest.mark.parametrize(
    ("how", "answers", "asked_for"),
    [
        ("password", ("wrong", "open sesame"), ["password of box: "] * 2),
        ("questions", ("open sesame", "123456"), ["box: Password: ", "box: Code : "]),
    ],
)
async def test_passwords_and_questions_are_asked_for_once(
    sshd: Sshd, tmp_path: Path, how: str, answers: tuple[str, ...], asked_for: list[str]
) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    server = await asyncssh.listen("127.0.0.1", 0, server_host_keys=[key], server_factory=lambda: Asking(how))
    config = tmp_path / "config"
    config.write_text(f"Host box\n HostName 127.0.0.1\n Port {server.get_port()}\n IdentityAgent none\n")
    made, requests = login(
        sshd, *answers, config=(str(config),), known_hosts=(str(tmp_path / "known"),), accept_new=True
    )
    async with server:
        for _ in range(2):  # the second time as after a lost connection
            connection = await dial(BOX, made)
            connection.close()
            await connection.wait_closed()
        assert requests == asked_for
        assert "open sesame" not in repr(made)
        nobody, _ = login(sshd, config=(str(config),), known_hosts=(str(tmp_path / "known"),))
        with pytest.raises(HostError) as caught:
            await dial(BOX, nobody)
        assert caught.value.cause is Cause.LOGIN


@pytest.fixture
def agent(sshd: Sshd, tmp_path: Path) -> Iterator[Path]:
    """The socket of an agent that has the user's key."""
    path = tmp_path / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.DEVNULL)
    wait(path.exists)
    command, environment = ["ssh-add", "-q", str(sshd.key)], {**os.environ, "SSH_AUTH_SOCK": str(path)}
    subprocess.run(command, env=environment, check=True, stderr=subprocess.DEVNULL)
    yield path
    process.terminate()
    process.wait()


async def test_the_agent_is_asked_and_never_forwarded(sshd: Sshd, agent: Path, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        f"Host box\n HostName 127.0.0.1\n Port {sshd.port}\n IdentityAgent {agent}\n ForwardAgent yes\n"
        " ForwardX11 yes\n RequestTTY force\n RemoteCommand false\n SetEnv PERFMON_TEST=1\n"
    )
    made, requests = login(sshd, config=(str(config),))
    script = 'echo "${SSH_AUTH_SOCK:-none} ${PERFMON_TEST:-none}"; [ -t 0 ] && echo terminal'
    assert await message_of(BOX, made, script) == "none none\n"
    assert requests == []


async def test_a_host_that_an_authority_vouches_for(tmp_path: Path) -> None:
    folder = tmp_path / "sshd"
    sshd = Sshd(folder, extra=f"HostCertificate {folder}/host-cert.pub")
    keygen(tmp_path / "ca")
    ran("ssh-keygen", "-q", "-s", tmp_path / "ca", "-I", "box", "-h", "-n", "127.0.0.1", f"{sshd.host_key}.pub")
    authority = (tmp_path / "ca.pub").read_text()
    sshd.start()
    try:
        sshd.known.write_text(f"@cert-authority [127.0.0.1]:{sshd.port} {authority}")
        assert await message_of(BOX, login(sshd)[0]) == "hi\n"
        sshd.known.write_text(f"@revoked [127.0.0.1]:{sshd.port} {sshd.host_key.with_suffix('.pub').read_text()}")
        assert "revoked" in str(await refused(BOX, login(sshd, accept_new=True)[0])).lower()
    finally:
        sshd.stop()


async def test_hashed_names_of_hosts_are_known(sshd: Sshd, tmp_path: Path) -> None:
    known = tmp_path / "known"
    known.write_text(sshd.known.read_text())
    ran("ssh-keygen", "-q", "-H", "-f", known)
    assert "127.0.0.1" not in known.read_text()
    made, requests = login(sshd, known_hosts=(str(known),))
    assert await message_of(BOX, made) == "hi\n"
    assert requests == []
