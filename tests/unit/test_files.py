"""Which logs SPECs name, and the one line for those that name none."""

from __future__ import annotations

import os
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from perfmon.core.errors import InputError, UsageError
from perfmon.sources.discovery import STDIN, LogFile, discover
from perfmon.sources.spec import ARCHIVES, Kind, parse_spec


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run's directory, with what lies beside logs."""
    monkeypatch.chdir(tmp_path)
    for name in (
        "logs/attempt_1/trainer.log", "logs/attempt_1/rank0/stderr.err", "logs/attempt_1/old.log.1", "logs/a.out.gz",
        "logs/metrics.jsonl", "logs/config.yaml", "logs/README.md", "logs/.hidden/x.log", "logs/checkpoint-500/y.log",
        "logs/model.safetensors", "logs/__pycache__/z.txt",
    ):  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("line\n")
    (tmp_path / "logs/lines.json").write_text('{"a": 1}\n{"a": 2}\n')
    (tmp_path / "logs/config.json").write_text('{\n "a": 1\n}\n')
    (tmp_path / "logs/latest").symlink_to("attempt_1")
    (tmp_path / "logs/attempt_1/up").symlink_to(tmp_path / "logs")
    return tmp_path


LOGS = [
    "logs/a.out.gz", "logs/attempt_1/old.log.1", "logs/attempt_1/rank0/stderr.err", "logs/attempt_1/trainer.log",
    "logs/lines.json", "logs/metrics.jsonl",
]  # fmt: skip


def names(*specs: str) -> list[str]:
    return [log.name for log in discover(specs)]


def test_a_directory_means_the_logs_below_it_each_once(run: Path) -> None:
    assert names("logs") == LOGS
    assert names("logs/latest", "logs", "logs/attempt_1/trainer.log") == LOGS
    assert names("logs/latest") == [f"logs/latest/{name}" for name in ("old.log.1", "rank0/stderr.err", "trainer.log")]


def test_a_glob_takes_what_it_matches(run: Path) -> None:
    assert names("logs/**/*.err") == ["logs/attempt_1/rank0/stderr.err"]
    assert names("logs/*.md") == ["logs/README.md"]
    assert names("logs/*") == LOGS


def test_archives_among_what_a_glob_matches_are_told(run: Path) -> None:
    for name in ("logs/old.tar", "logs/attempt_1/older.zip"):
        (run / name).write_bytes(b"x")

    def folders(pattern: str) -> list[Path]:
        return [log.path for log in discover([pattern]) if log.compression == ARCHIVES]

    assert folders("logs/*") == [run / "logs"]
    assert folders("logs/attempt_*") == [run / "logs/attempt_1"]
    assert folders("logs/*.json") == []


def test_names_are_as_they_were_given(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = str(run / "logs/attempt_1/trainer.log")
    assert names(whole) == [whole]
    assert names(str(run / "logs")) == [str(run / name) for name in LOGS]
    assert names(whole, "logs/attempt_1/trainer.log") == ["logs/attempt_1/trainer.log"]
    monkeypatch.chdir(run / "logs/attempt_1")
    assert names("../metrics.jsonl") == ["../metrics.jsonl"]
    assert names("../*.jsonl") == ["../metrics.jsonl"]
    assert names("../attempt_1/rank0") == ["../attempt_1/rank0/stderr.err"]
    assert names("./trainer.log", ".") == ["old.log.1", "rank0/stderr.err", "trainer.log"]
    subprocess.run(["tar", "-cf", "../x.tar", "trainer.log"], check=True)
    assert names("../x.tar") == ["../x.tar:trainer.log"]


def test_paths_are_absolute_and_compression_is_said(run: Path) -> None:
    assert discover(["logs/a.out.gz"])[0].path == run / "logs/a.out.gz"
    subprocess.run(["gzip", "logs/attempt_1/trainer.log"], check=True)
    assert discover(["logs/attempt_1/trainer.log.gz"])[0].compression == "gz"
    assert discover(["-", "-"]) == [LogFile("stdin", STDIN)]


def test_a_file_wins_over_another_meaning_of_its_name(run: Path) -> None:
    for name in ("gpu", "vllm=x", "a[1].log", "*"):
        Path(name).write_text("line\n")
        assert names(name) == [name]


@pytest.mark.parametrize("suffix", [".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst", ".zip"])
def test_bundles_list_their_logs(run: Path, suffix: str) -> None:
    subprocess.run(["tar", "-cf", "plain.tar", "logs/attempt_1", "logs/config.yaml"], check=True)
    bundle = f"b{suffix}"
    if suffix == ".zip":
        with zipfile.ZipFile(bundle, "w") as archive, tarfile.open("plain.tar") as tar:
            for member in tar:
                if member.isreg():
                    archive.writestr(member.name, tar.extractfile(member).read())  # type: ignore[union-attr]
    else:
        subprocess.run(["tar", "-c", "-a", "-f", bundle, "logs/attempt_1", "logs/config.yaml"], check=True)
    expected = ["logs/attempt_1/old.log.1", "logs/attempt_1/rank0/stderr.err", "logs/attempt_1/trainer.log"]
    assert [log.member for log in discover([bundle])] == expected
    assert names(bundle) == [f"{bundle}:{name}" for name in expected]


@pytest.mark.parametrize(
    "spec", ["ssh://host/x", "vllm=http://h:1", "sglang=x", "prometheus=u", "ray", "ray=auto", "slurm", "nccl=d", "gpu",
             "host", "net:8000", "command:'date'", "ftp://x", "", "a\0b"],
)  # fmt: skip
def test_other_kinds_are_refused_in_one_line_that_names_them(spec: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_spec(spec)
    assert "\n" not in str(error.value)
    assert spec.replace("\0", "") in str(error.value)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("logs/attempt_1/trianer.log", "did you mean 'logs/attempt_1/trainer.log'?"),
        ("logs/nowhere/deep/x.log", "'logs' exists"),
        ("logs/README.md/x.log", "no such file"),
        ("logs/*.nolog", "no match; 'logs' exists"),
        ("logs/checkpoint-500/empty", "no logs below this directory"),
        ("dangling.log", "a link to 'gone.log', which does not exist"),
        ("/dev/zero", "a device or socket"),
        ("broken.zip", "a damaged archive"),
        ("text.tar.gz", "a damaged archive"),
        ("empty.tar", "no logs in this archive"),
    ],
)
def test_what_cannot_be_read_is_one_line_with_the_mend(run: Path, spec: str, message: str) -> None:
    (run / "logs/checkpoint-500/empty").mkdir()
    (run / "dangling.log").symlink_to("gone.log")
    (run / "broken.zip").write_bytes(b"PK\x03\x04oops")
    (run / "text.tar.gz").write_text("no archive at all\n" * 100)
    tarfile.open(run / "empty.tar", "w").close()
    with pytest.raises(InputError, match=r"^[^\n]+$") as error:
        discover(["logs", spec])
    assert str(error.value).startswith(f"'{spec}': ")
    assert message in str(error.value)


def test_unreadable_files_are_told(run: Path) -> None:
    os.chmod(run / "logs/attempt_1/trainer.log", 0)
    run.chmod(0o711)
    if os.geteuid() == 0:
        os.seteuid(65534)
    try:
        with pytest.raises(InputError, match="permission denied: make it readable"):
            discover(["logs/attempt_1/trainer.log"])
    finally:
        if os.getuid() == 0:
            os.seteuid(0)


def test_kinds_of_specs(run: Path) -> None:
    kinds = {text: parse_spec(text).kind for text in ("-", "logs", "a.log", "x*.log", "a.log.gz", "a.tar.gz")}
    assert list(kinds.values()) == [Kind.STDIN, Kind.DIRECTORY, Kind.FILE, Kind.GLOB, Kind.COMPRESSED, Kind.BUNDLE]
