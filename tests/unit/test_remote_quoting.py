"""Names of machines and paths on them: what is meant, and that no name can run a command."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from perfmon.core.errors import UsageError
from perfmon.sources.remote.model import Address, RemoteSpec, parse_host, parse_remote
from perfmon.sources.shell import BOOTSTRAP, LocalRunner, literal_base, pattern, quoted, regex

HOSTILE = [
    "a'b",
    "$(touch bad)",
    "`touch bad`",
    "; touch bad",
    "a b",
    "-rf",
    "!x",
    "\\",
    '"',
    "a\tb",
    "*",
    "[x]",
    "~",
    "é\udcff",
]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("gpu-1", Address("gpu-1")),
        ("ubuntu@10.0.0.5:2222", Address("10.0.0.5", "ubuntu", 2222)),
        ("ssh://me@gpu-1:22/", Address("gpu-1", "me", 22)),
        ("me@[fe80::1%eth0]:22", Address("fe80::1%eth0", "me", 22)),
        ("::1", Address("::1")),
    ],
)
def test_hosts(text: str, address: Address) -> None:
    assert parse_host(text) == address


@pytest.mark.parametrize(
    "text", ["", "-oProxyCommand=x", "a b", "host:0", "host:99999", "host:x", "$(x)", "me@", "me@-x", "a;b", "\x1b[2J"]
)
def test_no_hosts(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_host(text)
    assert "\x1b" not in str(caught.value)


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(UsageError, match="no passwords in addresses") as caught:
        parse_remote("ssh://me:hunter2@host/x.log")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "host", "path"),
    [
        ("ssh://me@box/var/log/x.log", "me@box", "/var/log/x.log"),
        ("ssh://box:2222/~/out/**/*.log", "box:2222", "~/out/**/*.log"),
        ("ssh://box", "box", ""),
        ("ssh://box/", "box", ""),
        ("me@box:/logs/", "me@box", "/logs/"),
        ("me@box:~/x y.log", "me@box", "~/x y.log"),
    ],
)
def test_remote_specs(text: str, host: str, path: str) -> None:
    spec = parse_remote(text)
    assert spec is not None
    assert (spec.address.shown, spec.path.rstrip("/")) == (host, path.rstrip("/"))


def test_what_is_here_is_no_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("me@box:~x").write_text("a log")
    assert parse_remote("me@box:~x") is None
    assert parse_remote("logs/me@box:/x") is None
    assert isinstance(parse_remote("me@box:~y"), RemoteSpec)


def message_of(word: str, folder: Path, shell: str) -> bytes:
    """What a shell makes of a word."""
    script = f"printf '%s|' {word}".encode("utf-8", "surrogateescape")
    return subprocess.run([*shell.split(), "-c", script], cwd=folder, capture_output=True, check=True).stdout


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_one_word_and_no_command(tmp_path: Path, name: str, shell: str) -> None:
    assert message_of(quoted(name), tmp_path, shell) == name.encode("utf-8", "surrogateescape") + b"|"
    message_of(pattern(f"{name}/*{name}?"), tmp_path, shell)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a'b$(x)", "é [not a class", "back\\slash"])
def test_patterns_expand_beside_hostile_names(tmp_path: Path, name: str) -> None:
    for at in range(3):
        (tmp_path / f"{name}{at}.log").write_text("")
    expected = f"./{name}0.log|./{name}1.log|".encode()
    assert message_of(pattern(f"./{name}[01].log"), tmp_path, "sh") == expected
    assert message_of(pattern(f"./{name[0]}*[!2].lo?"), tmp_path, "sh") == expected


def test_patterns_through_all_folders() -> None:
    found = regex("/out/**/logs/*.log")
    assert found.fullmatch("/out/logs/a.log")
    assert found.fullmatch("/out/x/y/logs/a.log")
    assert not found.fullmatch("/out/.git/logs/a.log")
    assert not found.fullmatch("/out/logs/.a.log")
    assert not found.fullmatch("/out/logs/x/a.log")
    assert regex("/out/**").fullmatch("/out/x/a")
    assert literal_base("~/out/*/x/**/a") == "~/out/*/x"


@pytest.mark.parametrize("shell", ["dash", "bash", "zsh", "fish", "tcsh", "mksh", "busybox sh"])
async def test_every_login_shell_starts_the_loop(shell: str) -> None:
    if shutil.which(shell.partition(" ")[0]) is None:
        pytest.skip(f"needs {shell}")
    runner = await LocalRunner.open("here", [*shell.split(), "-c", BOOTSTRAP])
    try:
        assert (await runner.run("echo hi; exec 3</dev/null")).text == "hi\n"
    finally:
        await runner.close()


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox sh"])
async def test_a_shell_answers_between_its_marks(shell: str) -> None:
    if shutil.which(shell.partition(" ")[0]) is None:
        pytest.skip(f"needs {shell}")
    noisy = 'echo hello; printf \'no end\'; n=;read -r n;eval "$(dd bs=1 count="$n" 2>/dev/null)"'
    runner = await LocalRunner.open("here", [*shell.split(), "-c", noisy])
    try:
        assert (await runner.run("printf 'a\\nb'; false")).data == b"a\nb"
        assert (await runner.run("false")).code == 1
        assert (await runner.run("cat; x=5")).data == b""
        assert (await runner.run("for i in 1 2\ndo\n  printf '%s\\n' \"it's $i\" '\\t'\ndone\necho $x")).text == (
            "it's 1\n\\t\nit's 2\n\\t\n5\n"
        )
        everything = bytes(range(256)) * 4
        octal = "".join(f"\\{byte:03o}" for byte in everything)
        assert (await runner.run(f"printf '{octal}'")).data == everything
        assert (await runner.run("command exec 4</nonexistent || echo no")).text == "no\n"
    finally:
        await runner.close()
    assert runner.closed
