"""Logs of real SSH hosts, copied into one archive, and analysed."""

from __future__ import annotations

import gzip
import hashlib
import json
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sshd import AVAILABLE, Sshd, free_port

from perfmon.demo.output import write_demo

pytestmark = [pytest.mark.system, pytest.mark.skipif(not AVAILABLE, reason="needs sshd")]


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    """A server that has two names."""
    made = Sshd(tmp_path / "sshd")
    made.config.write_text(made.config.read_text().replace("Host box", "Host box far"))
    made.start()
    yield made
    made.stop()


def perfmon(*arguments: object) -> subprocess.Popen[str]:
    """Runs perfmon."""
    return subprocess.Popen(
        [sys.executable, "-m", "perfmon", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def done(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) in the end."""
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def test_a_bundle_of_two_hosts(sshd: Sshd, tmp_path: Path) -> None:
    write_demo(tmp_path / "logs")
    bundle = tmp_path / "bundle.tar.gz"
    code, out, err = done(
        perfmon("collect", "--ssh-config", sshd.config, "box", "far", "--log", tmp_path / "logs", "-o", bundle)
    )
    assert (code, out) == (0, ""), err
    assert bundle.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bundle.tar.gz", "logs", "sshd"]
    with tarfile.open(bundle) as archive:
        manifest = json.load(archive.extractfile("manifest.json"))  # type: ignore[arg-type]
        assert [host["host"] for host in manifest["hosts"]] == ["box", "far"]
        assert manifest["hosts"][0]["facts"]["system"].startswith("Linux")
        logs = [log for host in manifest["hosts"] for log in host["logs"]]
        assert len(logs) == 6
        for log in logs:
            data = archive.extractfile(log["file"]).read()  # type: ignore[union-attr]
            assert (len(data), hashlib.sha256(data).hexdigest()) == (log["size"], log["sha256"])
            assert data == Path(log["path"]).read_bytes()
            assert log["verified"]
    code, out, err = done(perfmon("analyze", bundle))
    assert "Front-end queue" in out, err


def test_credentials_become_stars_on_request(sshd: Sshd, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    text = "step 1 loss 2.5\nlogin with --api-key abc-123-def\nstep 2 loss 2.4\n"
    (tmp_path / "logs/train.log").write_text(text)
    (tmp_path / "logs/old.log.gz").write_bytes(gzip.compress(text.encode()))
    bundle = tmp_path / "bundle.tar.gz"
    command = ("collect", "--ssh-config", sshd.config, "box", "--log", tmp_path / "logs", "--redact", "-o", bundle)
    code, _, err = done(perfmon(*command))
    assert code == 0, err
    with tarfile.open(bundle) as archive:
        manifest = json.load(archive.extractfile("manifest.json"))  # type: ignore[arg-type]
        logs = manifest["hosts"][0]["logs"]
        assert [Path(log["file"]).name for log in logs] == ["old.log", "train.log"]
        for log in logs:
            data = archive.extractfile(log["file"]).read()  # type: ignore[union-attr]
            assert data.decode() == text.replace("abc-123-def", "*" * 11)
            assert (len(data), hashlib.sha256(data).hexdigest()) == (log["size"], log["sha256"])


def test_it_goes_on_where_it_was_interrupted(sshd: Sshd, tmp_path: Path) -> None:
    log, bundle = tmp_path / "big.log", tmp_path / "bundle.tar.gz"
    with log.open("wb") as file:
        for at in range(400_000):
            file.write(b"%d %s\n" % (at, hashlib.sha256(b"%d" % at).hexdigest().encode() * 3))
    command = ("collect", "--ssh-config", sshd.config, "box", "--log", log, "-o", bundle)
    first = perfmon(*command)
    part = tmp_path / "bundle.tar.gz.parts" / "box" / str(log).lstrip("/")
    while not (part.exists() and part.stat().st_size):
        assert first.poll() is None, "it was over before it could be interrupted"
        time.sleep(0.001)
    first.send_signal(2)
    code, _, err = done(first)
    assert code == 130, err
    had = part.stat().st_size
    assert 0 < had < log.stat().st_size
    began = part.stat().st_ino
    code, _, err = done(perfmon(*command))
    assert code == 0, err
    assert began
    with tarfile.open(bundle) as archive:
        data = archive.extractfile(f"box{log}")
        assert data is not None
        assert data.read() == log.read_bytes()


def test_a_host_that_is_not_there_and_one_that_is(sshd: Sshd, tmp_path: Path) -> None:
    write_demo(tmp_path / "logs")
    bundle, nobody = tmp_path / "bundle.tar.gz", f"127.0.0.1:{free_port()}"
    code, _, err = done(
        perfmon("collect", "--ssh-config", sshd.config, nobody, "box", "--log", tmp_path / "logs", "-o", bundle)
    )
    assert code == 3
    assert [line for line in err.splitlines() if "connection refused" in line] == err.splitlines()[-1:]
    assert "tried again" not in err
    assert "waited for" not in err
    with tarfile.open(bundle) as archive:
        assert len(archive.getnames()) == 4


def test_the_same_command_completes_an_archive_that_lacks_a_host(sshd: Sshd, tmp_path: Path) -> None:
    write_demo(tmp_path / "logs")
    bundle, late = tmp_path / "bundle.tar.gz", Sshd(tmp_path / "late")
    sshd.config.write_text(sshd.config.read_text() + late.config.read_text().replace("Host box", "Host late"))
    command = ("collect", "--ssh-config", sshd.config, "--log", tmp_path / "logs", "-o", bundle)
    assert done(perfmon(*command, "box", "late"))[0] == 3
    assert done(perfmon(*command, "far"))[0] == 2, "another command would overwrite what is there"
    late.start()
    try:
        code, _, err = done(perfmon(*command, "box", "late"))
    finally:
        late.stop()
    assert code == 0, err
    with tarfile.open(bundle) as archive:
        assert {name.partition("/")[0] for name in archive.getnames()} == {"manifest.json", "box", "late"}
    assert done(perfmon(*command, "box", "late"))[0] == 2, "it is complete"


def test_parts_are_taken_along_and_what_is_left_out_is_told(sshd: Sshd, tmp_path: Path) -> None:
    logs, bundle = tmp_path / "logs", tmp_path / "bundle.tar.gz"
    logs.mkdir()
    hostile = ["a'b.log", "$(touch pwned).log", "-rf.log", "*.log", "back\\slash.log", "esc\x1b[31m.log"]
    for name in (*hostile, "run.log", "run.log.1", "two\nlines.log"):
        (logs / name).write_text(f"{name!r}\n")
    (logs / "run.log.2.gz").write_bytes(gzip.compress(b"older\n"))
    code, _, err = done(perfmon("collect", "--ssh-config", sshd.config, "box", "--log", logs, "-o", bundle))
    assert code == 0
    assert "perfmon: box: skipped: " in err.splitlines()[0]
    assert err.splitlines()[0].endswith("lines.log': a name with a line break")
    with tarfile.open(bundle) as archive:
        names = {name.rpartition("/")[2] for name in archive.getnames()}
    assert names == {"manifest.json", *hostile, "run.log", "run.log.1", "run.log.2.gz"}
    assert done(perfmon("analyze", bundle))[0] == 0


def test_wrong_usage_is_told_before_anything_is_done(sshd: Sshd, tmp_path: Path) -> None:
    (tmp_path / "there.tar.gz").write_text("mine")
    for output, words in (("x.zip", ".tar.gz"), ("there.tar.gz", "--force")):
        code, _, err = done(
            perfmon("collect", "--ssh-config", sshd.config, "box", "--log", "/x", "-o", tmp_path / output)
        )
        assert (code, words in err) == (2, True)
    assert (tmp_path / "there.tar.gz").read_text() == "mine"


def test_analysed_where_they_are(sshd: Sshd, tmp_path: Path) -> None:
    write_demo(tmp_path / "logs")
    code, out, err = done(
        perfmon("analyze", "--json", "--ssh-config", sshd.config, f"ssh://box{tmp_path}/logs", "--jobs", "1")
    )
    assert code == 0, err
    there = json.loads(out)
    here = json.loads(done(perfmon("analyze", "--json", tmp_path / "logs", "--jobs", "1"))[1])
    assert [source["spec"] for source in there["run"]["sources"]] == [
        f"box:{source['spec']}" for source in here["run"]["sources"]
    ]
    assert there["verdict"] == here["verdict"]


def test_no_logs(sshd: Sshd, tmp_path: Path) -> None:
    code, _, err = done(
        perfmon("collect", "--ssh-config", sshd.config, "box", "--log", "/nowhere/*.log", "-o", tmp_path / "b.tar.gz")
    )
    assert code == 2
    assert "perfmon: box: /nowhere/*.log: no such log" in err
    assert "no logs found" in err


def test_a_log_that_is_not_there_is_named_and_the_others_are_no_answer_for_it(sshd: Sshd, tmp_path: Path) -> None:
    write_demo(tmp_path / "logs")
    specs = [f"ssh://box{tmp_path}/{name}" for name in ("gone.log", "logs")]
    code, out, err = done(perfmon("analyze", "--ssh-config", sshd.config, *specs))
    assert (code, out) == (2, "")
    assert err == f"perfmon: box: {tmp_path}/gone.log: no such log (perfmon ssh HOST --dry-run lists what is there)\n"
    logs = ("--log", f"{tmp_path}/gone.log", "--log", f"{tmp_path}/logs")
    code, _, err = done(perfmon("collect", "--ssh-config", sshd.config, "box", *logs, "-o", tmp_path / "b.tar.gz"))
    assert (code, (tmp_path / "b.tar.gz").exists()) == (0, True)
    assert f"perfmon: box: {tmp_path}/gone.log: no such log\n" in err


def test_what_was_rewritten_while_it_was_copied_is_told(sshd: Sshd, tmp_path: Path) -> None:
    log, bundle = tmp_path / "big.log", tmp_path / "bundle.tar.gz"
    log.write_bytes(b"a line of the first text\n" * 2_000_000)
    copying = perfmon("collect", "--ssh-config", sshd.config, "box", "--log", log, "-o", bundle)
    part = tmp_path / "bundle.tar.gz.parts" / "box" / str(log).lstrip("/")
    while not (part.exists() and part.stat().st_size):
        assert copying.poll() is None, "it was over before the log could be rewritten"
        time.sleep(0.001)
    with log.open("r+b") as file:
        file.write(b"another text altogether\n\n")
    code, _, err = done(copying)
    assert code == 0, err
    assert "sha256sum differs" in err
    with tarfile.open(bundle) as archive:
        manifest = json.load(archive.extractfile("manifest.json"))  # type: ignore[arg-type]
    assert [log["verified"] for log in manifest["hosts"][0]["logs"]] == [False]
