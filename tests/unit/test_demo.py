"""The built-in runs: the same seed gives the same bytes, their figures agree, their lines are recognised."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from perfmon.core.errors import InputError, UsageError
from perfmon.core.text import ESCAPES
from perfmon.demo.output import write_demo
from perfmon.demo.scenarios import SCENARIOS
from perfmon.sources.formats.loader import load_packs
from perfmon.sources.scan.scanner import Scanner

_LEG = re.compile(r"\[weights\]\[(\w+)\] ([a-z.]+) (.*)")


def _bytes(folder: Path, **options: object) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in write_demo(folder, **options)}  # type: ignore[arg-type]


def _text(path: Path) -> str:
    return ESCAPES.sub("", path.read_text())


def test_a_seed_gives_the_same_bytes_and_another_gives_others(tmp_path: Path) -> None:
    first = _bytes(tmp_path / "a", seed=3)
    assert first == _bytes(tmp_path / "b", seed=3)
    assert first != _bytes(tmp_path / "c", seed=4)
    assert set(first) == {"orchestrator.log", "inference.log", "trainer.log"}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_trace_lines_of_every_scenario_are_recognised(tmp_path: Path, scenario: str) -> None:
    scanner = Scanner([pack for pack in load_packs() if pack.id == "trace"])
    for path in write_demo(tmp_path, scenario):
        data = path.read_bytes()
        scanned = scanner.scan(data)
        result = sum(data.count(tag) for tag in (b"[weights][", b"[ckpt]", b"[gen]", b"[rollout]"))
        assert sum(scanned.recognised.values()) == result
        assert not scanned.problems


def _legs(folder: Path) -> dict[str, dict[str, dict[str, str]]]:
    traces: dict[str, dict[str, dict[str, str]]] = {}
    for name in ("orchestrator.log", "inference.log"):
        for trace, leg, fields in _LEG.findall(_text(folder / name)):
            traces.setdefault(trace, {})[leg] = dict(field.split("=", 1) for field in fields.split())
    return traces


def test_the_five_legs_of_an_update_agree(tmp_path: Path) -> None:
    write_demo(tmp_path)
    traces = _legs(tmp_path)
    queued = 0
    for legs in traces.values():
        times = [float(legs[leg]["t"]) for leg in ("client.send", "server.recv", "rpc.start", "rpc.done")]
        assert times == sorted(times)
        done = {key: float(value) for key, value in legs["client.done"].items()}
        assert done["wall_ms"] == pytest.approx(done["queue_ms"] + done["rpc_ms"], abs=0.2)
        assert 1000 * (times[1] - times[0]) == pytest.approx(done["queue_ms"], abs=1.0)
        assert 1000 * (times[3] - times[2]) == pytest.approx(done["rpc_ms"], abs=1.0)
        queued += done["queue_ms"] > 10_000 and done["rpc_ms"] < 2000
    assert (len(traces), queued) == (15, 14)


def _values(folder: Path, name: str, field: str) -> list[float]:
    return [float(value) for value in re.findall(rf"\b{field}=([\d.]+)", _text(folder / name))]


def test_a_healthy_run_stays_in_all_bands(tmp_path: Path) -> None:
    write_demo(tmp_path, "healthy")
    limits = {"queue_ms": 100, "rpc_ms": 2000, "wait_ms": 500, "dur_ms": 5000, "trunc_pct": 10, "staleness": 1.5}
    for field, limit in limits.items():
        assert 0 < max(_values(tmp_path, "orchestrator.log", field)) < limit
    assert max(_values(tmp_path, "trainer.log", "write_ms")) < 1000


@pytest.mark.parametrize(
    ("scenario", "name", "field", "above"),
    [
        ("slow-weight-load", "orchestrator.log", "rpc_ms", 5000),
        ("slow-checkpoint-write", "trainer.log", "write_ms", 5000),
        ("checkpoint-stall", "orchestrator.log", "wait_ms", 2000),
        ("rollout-truncation", "orchestrator.log", "trunc_pct", 30),
        ("stale-rollouts", "orchestrator.log", "staleness", 3),
        ("generation-contention", "orchestrator.log", "dur_ms", 10_000),
    ],
)
def test_a_scenario_shows_what_it_is_named_for(
    tmp_path: Path, scenario: str, name: str, field: str, above: float
) -> None:
    write_demo(tmp_path, scenario)
    assert sum(value > above for value in _values(tmp_path, name, field)) >= 4
    assert max(_values(tmp_path, "orchestrator.log", "queue_ms")) > 1000 or scenario != "generation-contention"


def test_wrong_wishes_give_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such scenario"):
        write_demo(tmp_path, "fine")
    for minutes in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="minutes: expected"):
            write_demo(tmp_path, minutes=minutes)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="choose another folder"):
        write_demo(tmp_path / "file")


def test_the_command_prints_the_paths(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "perfmon.demo", str(tmp_path / "x"), "--scenario", "healthy", "--minutes", "3"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert [Path(line).name for line in done.stdout.splitlines()] == [
        "orchestrator.log",
        "inference.log",
        "trainer.log",
    ]
    wrong = subprocess.run([*command[:4], "--scenario", "x"], capture_output=True, text=True, check=False)
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
