"""Which logs are of one run, and the list of runs that is printed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perfmon.cli import main
from perfmon.core.errors import ExitCode
from perfmon.demo.output import write_demo
from perfmon.sources.file_tree import grouped


@pytest.mark.parametrize(
    ("logs", "runs"),
    [
        (["a/logs/trainer.log", "a/logs/inference.log", "b/logs/trainer.log"], {"a": 2, "b": 1}),
        (["a/trainer/rank_0.log", "a/inference/node-1/x.log", "a/eval/x.log", "b/x.log"], {"a": 3, "b": 1}),
        (["logs/trainer/x.log", "logs/inference/x.log"], {".": 2}),
        (["train.log", "wandb/run-1/files/output.log"], {".": 2}),
        (["job/attempt_0/0/stderr.log", "job/attempt_0/1/stderr.log"], {"job": 2}),
        (["multirun/05-01/0/a.log", "multirun/05-01/1/a.log"], {f"multirun/05-01/{n}": 1 for n in (0, 1)}),
        (["lightning_logs/version_0/a.log", "lightning_logs/version_1/a.log"],
         {f"lightning_logs/version_{n}": 1 for n in (0, 1)}),
        (["a/x.log", "a/extra/y.log", "b/x.log"], {"a": 2, "b": 1}),
        ([f"{name}/train.log" for name in ("one", "two", "nccl")], {"one": 1, "two": 1, "nccl": 1}),
        (["one/train.log", "two/train.log", "three/train.log", "vllm/vllm.log", "trainer/logs/x.log"],
         {"one": 1, "two": 1, "three": 1, "vllm": 1, "trainer": 1}),
        ([f"sweep/{name}/logs/slurm-{name}1.out" for name in ("7", "8", "test")],
         {"sweep/7": 1, "sweep/8": 1, "sweep/test": 1}),
        (["trainer/x.log", "inference/x.log", "orchestrator/x.log"], {".": 3}),
        (["trainer/x.log", "inference/x.log", "judge/x.log"], {".": 3}),
        (["trainer/x.log", "env_maze/x.log", "env_chess/x.log"], {".": 3}),
        (["trainer/t.log", "judge/j.log", "tools/s.log"], {".": 3}),
        (["run.log", "one/train.log", "two/train.log", "nccl/train.log"],
         {".": 2, "one": 1, "two": 1}),
        (["nohup.out", "x.log", "runs/a/hf.log", "runs/b/trl.log", "old/c/vllm.log"],
         {".": 2, "runs/a": 1, "runs/b": 1, "old/c": 1}),
        (["train.log", "judge/j.log", "tools/s.log"], {".": 3}),
        (["train.log", *(f"wandb/run-{at}/files/output.log" for at in range(4))], {".": 5}),
        (["train.log", *(f"rank_{at}/stderr.log" for at in range(4))], {".": 5}),
        (["slurm-1234.out", "slurm-1234.err", "slurm-1235.out"], {"slurm-1234": 2, "slurm-1235": 1}),
        (["logs/gpt-88123_4.out", "logs/gpt-88123_5.out"], {"gpt-88123_4": 1, "gpt-88123_5": 1}),
        (["slurm-1234.out", "slurm-1234.err"], {".": 2}),
        (["slurm-1234.out", "slurm-1235.out", "train.log"], {".": 3}),
    ],
)  # fmt: skip
def test_logs_are_grouped_by_what_launchers_name_folders(logs: list[str], runs: dict[str, int]) -> None:
    found = grouped([f"/place/{log}" for log in reversed(logs)], "/place")
    assert {group.name: len(group.paths) for group in found} == runs
    assert sorted(path for group in found for path in group.paths) == sorted(f"/place/{log}" for log in logs)


def test_a_run_with_a_folder_of_its_own_is_named_by_it_and_a_job_by_its_logs() -> None:
    (run,) = grouped(["/place/a/logs/x.log"], "/place")
    assert run.specs == ("/place/a",)
    jobs = grouped(["/place/slurm-1234.out", "/place/slurm-1235.out"], "/place")
    assert [job.specs for job in jobs] == [("/place/slurm-1234.out",), ("/place/slurm-1235.out",)]


@pytest.mark.parametrize(
    ("text", "runs"), [("nohup: ignoring input\n", {"a", "b", "nohup.out"}), ("step 1\n" * 999, {"."})]
)
def test_a_file_with_next_to_nothing_in_it_does_not_make_one_run_of_those_below(
    tmp_path: Path, text: str, runs: set[str]
) -> None:
    for name, content in (("nohup.out", text), ("a/hf.log", "step 1\n" * 9999), ("b/titan.log", "step 1\n" * 9999)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    found = grouped([str(path) for path in tmp_path.rglob("*.*")], str(tmp_path))
    assert {group.name for group in found} == runs


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs, one of an hour ago."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("PERFMON_CONFIG", raising=False)
    place = tmp_path / "runs"
    write_demo(place / "new" / "logs", "kv-cache-pressure", 0, 10)
    for log in write_demo(place / "old" / "logs", "healthy", 0, 10):
        written = log.stat().st_mtime - 3600
        os.utime(log, (written, written))
    monkeypatch.chdir(place)
    return place


def test_plain_perfmon_lists_several_runs_the_newest_first(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == ExitCode.DONE
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["state", "verdict", "step", "left", "last", "line", "run"]
    assert [row.split()[-1] for row in rows] == ["new", "old"]
    assert "KV cache pressure" in rows[0]
    assert rows[1].startswith("silent")
    assert "1h 00m" in rows[1]
    (runs / "old" / "logs").rename(runs / "new" / "more")
    assert main([]) == ExitCode.USAGE  # one run: its monitor, which needs a terminal
    assert "needs a terminal" in capsys.readouterr().err


def test_a_folder_that_is_none_is_one_line(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "nowhere"]) == ExitCode.USAGE
    assert capsys.readouterr().err == "perfmon: nowhere: no such folder (perfmon SOURCE opens a file)\n"
    (runs / "empty").mkdir()
    assert main(["runs", "empty"]) == ExitCode.USAGE
    assert "no logs below this directory" in capsys.readouterr().err


def test_a_folder_of_several_runs_is_listed_unless_it_is_to_be_watched(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for argv in ([f"{runs}/"], ["--theme", "daylight", str(runs)]):
        assert main(argv) == ExitCode.DONE
        assert [row.split()[-1] for row in capsys.readouterr().out.splitlines()] == ["run", "new", "old"]
    new = str(runs / "new")
    for argv in (["watch", str(runs)], [str(runs), "--no-history"], [new], [str(runs), new]):
        assert main(argv) == ExitCode.USAGE
        assert "needs a terminal" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["analyze"], ["snapshot", "-o", "-"], ["status"]])
def test_what_takes_several_runs_together_says_so(
    runs: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    main([*command, str(runs)])
    note = f"perfmon: {runs}: 2 runs taken together as one (perfmon runs {runs} lists them)"
    assert capsys.readouterr().err.splitlines().count(note) == 1
    main([*command, str(runs / "new")])
    assert "taken together" not in capsys.readouterr().err
