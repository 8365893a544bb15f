"""`perfmon nccl`: its output, files, options and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.nccl_logs import Faults, Plan, write
from perfmon.cli import main
from perfmon.nccl import job_metadata

pytest.importorskip("duckdb", reason="needs DuckDB (pip install 'perfmon-tui[nccl]')")
pytest.importorskip("matplotlib", reason="needs matplotlib (pip install 'perfmon-tui[plots]')")

PLAN = Plan(nodes=2, gpus=4, steps=6, layers=2, faults=Faults(slow_rank=6))
PNG = b"\x89PNG\r\n"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """The logs of a job with a slow rank."""
    write(tmp_path / "12345", PLAN)
    return tmp_path / "12345"


def test_the_summary_names_the_slow_rank(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nccl", str(logs), "--hardware", "h100"]) == 0
    out, err = capsys.readouterr()
    assert "Slow rank in collectives: rank 6 on node-" in out
    assert "of ceiling" in out
    assert err == ""


def test_the_document_has_what_is_promised(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (logs / "job.log").write_text("Epoch 1\n")
    assert main(["nccl", str(logs), "--json", "--fail-on", "warning"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == 1
    assert (document["skipped"], document["lost"]) == (1, {"not a record": 1})
    assert {"comm_type", "collective", "bytes", "ops", "busbw_mean_gbs", "busbw_p50_gbs"} <= set(document["by"][0])
    assert {"rank", "host", "pid", "caused_wait_us", "caused_wait_share", "ops"} <= set(document["ranks"][0])
    assert {"comm", "comm_type", "hosts", "ratio"} <= set(document["links"][0])
    (finding,) = document["findings"]
    assert (finding["signature"], finding["rank"]) == ("nccl-slow-rank", 6)
    assert finding["host"].startswith("node-")
    assert finding["share"] > 0.8


def test_files_are_written_once_more(logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["nccl", str(logs), "-o", str(out), "--parquet"]) == 0
    assert capsys.readouterr().out == f"{out}\n"
    names = {path.name for path in out.iterdir()}
    assert names == {"summary", "parquet_files", "output.log", "SUMMARY.md", "summary.json", "report.html"}
    pictures = list(out.rglob("*.png"))
    assert {path.name.partition("_")[0] for path in pictures} >= {"scatter", "histogram", "boxplot"}
    assert all(path.read_bytes().startswith(PNG) for path in pictures)
    log = (out / "output.log").read_text()
    assert " - INFO - 8 log files" in log
    assert " - WARNING - Slow rank in collectives: rank 6" in log
    page = (out / "SUMMARY.md").read_text()
    assert all((out / line[line.index("](") + 2 : -1]).exists() for line in page.splitlines() if line.startswith("!["))
    assert main(["nccl", str(logs), "-o", str(out)]) == 0
    assert not (out / "parquet_files").exists()  # of the earlier report


def test_all_plots_draws_every_size(logs: Path, tmp_path: Path) -> None:
    assert main(["nccl", str(logs), "-o", str(tmp_path / "out"), "--all-plots"]) == 0
    written = {path.name for path in (tmp_path / "out").rglob("*.png")}
    summaries = {path.stem.removeprefix("summary_") for path in (tmp_path / "out").rglob("*.csv")}
    assert {f"histogram_{name}.png" for name in summaries} <= written
    assert {f"boxplot_{name}.png" for name in summaries} <= written
    assert {name for name in written if name.startswith("combined")}


def test_a_job_is_found_by_its_number(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "exporter.ini"
    config.write_text(f"[paths]\ndefault_log_root = {logs.parent}\n[kibana]\nkibana_project_summary = x%y\n")
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    sacct = bin_folder / "sacct"
    sacct.write_text("#!/bin/sh\necho 'pretrain|me|lab|gpu|2|node-[1-2]|RUNNING|2026-03-02T08:00:00|01:00:00|c1'\n")
    sacct.chmod(0o755)
    monkeypatch.setenv("PATH", str(bin_folder), prepend=":")
    monkeypatch.chdir(tmp_path)
    assert main(["nccl", "--jobid", "12345", "--config", str(config)]) == 0
    assert capsys.readouterr().out == "12345-insp\n"
    document = json.loads((tmp_path / "12345-insp" / "summary.json").read_text())
    assert document["job"]["JobName"] == "pretrain"
    config.write_text(f"[paths]\ndefault_log_root = {logs.parent}/{{jobid}}\n")
    assert main(["nccl", "--jobid", "12345", "--config", str(config), "--json"]) == 0


SCONTROL = """JobId=12345 JobName=pretrain
   UserId=me(1000) GroupId=lab(1000) Partition=gpu JobState=RUNNING
   RunTime=01:00:00 StartTime=2026-03-02T08:00:00 NodeList=node-[1-2] NumNodes=2 Comment=
"""


@pytest.mark.parametrize("sacct", [None, "exit 1", "echo 'no such job'"], ids=["missing", "failing", "unknown"])
def test_without_accounting_the_controller_describes_the_job(
    sacct: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    scripts = {"scontrol": f"[ \"$*\" = 'show job 12345' ] && echo '{SCONTROL}'"} | ({"sacct": sacct} if sacct else {})
    for name, body in scripts.items():
        (bin_folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (bin_folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(bin_folder))
    assert job_metadata("12345") == {
        "JobName": "pretrain",
        "User": "me(1000)",
        "Partition": "gpu",
        "NNodes": "2",
        "NodeList": "node-[1-2]",
        "State": "RUNNING",
        "Start": "2026-03-02T08:00:00",
        "Elapsed": "01:00:00",
    }
    assert job_metadata("7") == {}
    (bin_folder / "scontrol").unlink()
    assert job_metadata("12345") == {}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give either DIR or --jobid"),
        (["{logs}", "--jobid", "1"], "give either DIR or --jobid"),
        (["--jobid", "../x"], "expected the number of a Slurm job"),
        (["--jobid", "1"], "not found (--config FILE"),
        (["{logs}", "--ssh-config", "x"], "--ssh-config and --accept-new are for other hosts"),
        (["{logs}", "--config", "x.ini"], "--config INI is for --jobid"),
        (["{logs}", "--parquet"], "name a folder with -o"),
        (["{logs}", "-o", "{logs}"], "holds the logs that are read"),
        (["{logs}", "-o", "{tmp}"], "holds the logs that are read"),
        (["{logs}", "-o", "{other}"], "holds other files"),
        (["{logs}", "--hardware", "abacus"], "unknown (expected one of a100"),
        (["{tmp}/nowhere"], "no such file or folder"),
    ],
)
def test_wrong_usage_is_one_line(
    words: list[str],
    message: str,
    logs: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("x")
    assert main(["nccl", *(word.format(logs=logs, tmp=tmp_path, other=other) for word in words)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.count("\n") == 1
    assert (other / "thesis.tex").exists()


def test_hostile_names_are_shown_as_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "logs", PLAN)
    evil = "</script><script>alert(1)</script>\\u001b[31m"
    for path in (tmp_path / "logs").iterdir():
        text = path.read_text().replace('"hostname":"node-', f'"hostname":"{evil}')
        path.write_text(text.replace('"coll":"AllGather"', '"coll":"../../x$\\\\frac{"'))
    assert main(["nccl", str(tmp_path / "logs"), "-o", str(tmp_path / "out")]) == 0
    assert main(["nccl", str(tmp_path / "logs")]) == 0
    assert "\x1b" not in capsys.readouterr().out
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.count("</script>") == 3  # data, and two scripts
    assert sorted(path.name for path in tmp_path.iterdir()) == ["logs", "out"]
    assert "<script" not in (tmp_path / "out" / "SUMMARY.md").read_text()


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        ("spark", "expected local, ray or ray=HOST:PORT"),
        ("ray=", "expected local, ray or ray=HOST:PORT"),
        ("ray=host", "expected HOST:PORT or ray://HOST:PORT"),
        ("ray=host:99999", "expected HOST:PORT or ray://HOST:PORT"),
        ("ray=local", "expected HOST:PORT or ray://HOST:PORT"),
    ],
)
def test_an_engine_that_does_not_exist_is_one_line(
    engine: str, message: str, logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["nccl", str(logs), "--engine", engine]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert message in err


def test_without_ray_one_line_names_the_extra(
    logs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("perfmon.cluster.ray_cluster.find_spec", lambda _: None)
    assert main(["nccl", str(logs), "--engine", "ray"]) == 2
    assert "--engine ray needs the 'ray' extra: pip install 'perfmon-tui[ray]'" in capsys.readouterr().err


def test_the_check_of_a_node_needs_no_perfmon_there() -> None:
    """It travels by value; run here by a Python that has the site packages, but not this project."""
    cloudpickle = pytest.importorskip("ray.cloudpickle", reason="ray is not installed")
    import subprocess
    import sys

    from perfmon.cluster.ray_cluster import _obstacle, _probe

    code = (
        f"import sys; sys.path.append({str(Path(cloudpickle.__file__).parents[2])!r}); import pickle; "
        "print(pickle.loads(sys.stdin.buffer.read())([('/nowhere', 1)], ['json', 'duckdb']))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-I", "-c", code], input=cloudpickle.dumps(_probe()), capture_output=True, check=True
    )
    version, _, absent, missing = sight = eval(done.stdout)  # noqa: S307 - our own output
    assert (version, absent, missing) == ("", "", "/nowhere")
    assert _obstacle(sight, {"duckdb": "nccl"}).startswith("has no perfmon (pip install 'perfmon-tui[nccl]==")
