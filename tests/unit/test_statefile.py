"""The file that a running monitor leaves for status lines, and who believes it."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pictures
import pytest
import snapshots

from perfmon.reports.snapshot_page import cautions
from perfmon.status.state_file import EVERY_S, StateFile, absolute, read_state, read_states, state_of_picture
from perfmon.viewmodel import AlertState, RunState

SECRET = "hf_abcdefghijklmnopqrstuvwxyz"  # noqa: S105


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which state files lie."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    return tmp_path / "perfmon"


class Hand:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def written(*specs: str) -> StateFile:
    """A state file that was written once."""
    file = StateFile(specs or ("logs",))
    file.write(pictures.picture(pictures.alert(), pictures.alert(2, AlertState.PENDING)))
    assert file.problem == ""
    return file


def only(runtime: Path) -> Path:
    """The one state file that is there."""
    [path] = runtime.iterdir()
    return path


@pytest.mark.parametrize(
    "spec",
    [
        "command:curl -H 'Authorization: Bearer hunter22x' http://h/queue",
        "vllm=http://ops:hunter22@h:1",
        "ssh://ops:hunter22@h/logs",
        "runs/api_key=hunter22x/train.log",
    ],
)
def test_a_monitor_is_found_by_a_source_whose_secret_is_not_kept(spec: str, runtime: Path) -> None:
    written(spec, "logs")
    assert "hunter" not in only(runtime).read_text()
    state = read_state(["logs", spec])
    assert state is not None
    assert any(spec[:8] in kept for kept in state.specs)
    assert read_state([spec]) is None


def test_what_is_written_is_read() -> None:
    written("logs", "/var/log/x.log")
    state = read_state(["/var/log/x.log", "./logs"])
    assert state is not None
    assert state.specs == tuple(sorted((os.path.abspath("logs"), "/var/log/x.log")))
    assert (state.run, state.severity, state.signature, state.firing) == ("live", "critical", "frontend-queue", 1)
    assert (state.lost_share, state.metric, state.unit, state.value) == (0.31, "queue_ms", "ms", 13300.0)
    assert state.values[:3] == (0.2, 12000.0, None)
    assert 0 <= state.age_s < 60


@pytest.mark.parametrize(
    ("until", "stale_s"), [(None, None), (pictures.START + 4000.0, None), (pictures.START + 500.0, 3725.0)]
)
def test_a_silence_that_is_the_verdict_is_not_told_as_the_past(until: float | None, stale_s: float | None) -> None:
    picture = replace(pictures.picture(pictures.alert(until=until)), stale_s=3725.0)
    assert state_of_picture(("logs",), picture).stale_s == stale_s
    assert bool(cautions(picture)) == (stale_s is not None)


def test_other_specs_are_another_matter() -> None:
    written("logs")
    assert read_state(["elsewhere"]) is None
    assert read_state(["logs", "elsewhere"]) is None
    written("elsewhere")
    assert [Path(state.specs[0]).name for state in read_states()] == ["elsewhere", "logs"]


def test_it_belongs_to_its_owner_alone(runtime: Path) -> None:
    written()
    assert stat.S_IMODE(runtime.stat().st_mode) == 0o700
    assert stat.S_IMODE(only(runtime).stat().st_mode) == 0o600


def test_a_folder_that_others_may_read_is_closed(runtime: Path) -> None:
    runtime.mkdir(mode=0o755)
    written()
    assert stat.S_IMODE(runtime.stat().st_mode) == 0o700


def test_a_folder_that_is_a_link_is_not_used(runtime: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    runtime.symlink_to(tmp_path / "theirs")
    file = StateFile(["logs"])
    file.write(pictures.picture())
    assert "is not a folder that you own" in file.problem
    assert list((tmp_path / "theirs").iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_somebody_else_is_not_used(runtime: Path) -> None:
    written()
    os.chown(runtime, 65534, 65534)
    assert read_states() == []
    file = StateFile(["logs"])
    file.write(pictures.picture())
    assert "is not a folder that you own" in file.problem


def test_it_is_written_now_and_then_and_removed_at_the_end(runtime: Path) -> None:
    clock = Hand()
    file = StateFile(["logs"], clock)
    file.write(pictures.picture())
    only(runtime).unlink()
    clock.now = EVERY_S / 2
    file.write(pictures.picture())
    assert list(runtime.iterdir()) == []
    clock.now = EVERY_S
    file.write(pictures.picture())
    assert only(runtime)
    file.remove()
    assert list(runtime.iterdir()) == []


def test_another_verdict_or_alert_is_written_at_once(runtime: Path) -> None:
    clock = Hand()
    file = StateFile(["logs"], clock)
    file.write(pictures.picture(snapshot=None))
    for later in (pictures.picture(), pictures.picture(pictures.alert())):
        before = only(runtime).read_text()
        file.write(later)
        assert only(runtime).read_text() != before
    before = only(runtime).read_text()
    file.write(pictures.picture(pictures.alert()))
    assert only(runtime).read_text() == before
    file.remove()


def test_what_cannot_be_written_is_told_and_ends_nothing(runtime: Path) -> None:
    runtime.parent.joinpath("perfmon").write_text("a file")
    file = StateFile(["logs"])
    file.write(pictures.picture())
    assert "cannot be written" in file.problem
    file.remove()


STUMP = """
import os, resource, signal, sys
from perfmon.monitor.monitor import empty_picture
from perfmon.status.state_file import StateFile, read_state
specs, clock = [f"/logs/worker-{at}.log" for at in range(400)], iter((0.0, 100.0))
file = StateFile(specs, lambda: next(clock))
file.write(empty_picture(600.0))
assert not file.problem and read_state(specs) is not None
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
file.write(empty_picture(60.0))
print(file.problem)
print(read_state(specs) is not None)
"""


def test_what_is_written_in_part_takes_no_place(runtime: Path) -> None:
    del runtime
    result = subprocess.run(
        [sys.executable, "-c", STUMP], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert "cannot be written" in result[0]
    assert result[1] == "True"


def test_a_state_of_a_process_that_is_gone_is_no_news(runtime: Path) -> None:
    written()
    document = json.loads(only(runtime).read_text())
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    for change in ({"pid": gone.pid}, {"started": "1"}, {"boot": "another"}, {"pid": "x"}, {"pid": -1}, {"schema": 2}):
        only(runtime).write_text(json.dumps({**document, **change}))
        assert read_states() == [], change
    only(runtime).write_text(json.dumps({**document, "host": "elsewhere", "pid": gone.pid}))
    assert len(read_states()) == 1


def test_what_killed_monitors_left_is_removed_by_the_next_one(runtime: Path) -> None:
    written("old")
    path = only(runtime)
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "started": "1"}))
    (runtime / "elsewhere.1.json").write_text(json.dumps({**document, "host": "elsewhere"}))
    (runtime / "broken.1.json").write_text("{")
    written("new")
    names = {entry.name for entry in runtime.iterdir()}
    assert path.name not in names
    assert {"elsewhere.1.json", "broken.1.json"} < names
    assert len(names) == 3


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"schema": 1}', "[" * 60_000, "\x00" * 100])
def test_a_broken_file_is_passed_over(runtime: Path, text: str) -> None:
    written("good")
    (runtime / "00000000.1.json").write_text(text)
    assert len(read_states()) == 1


def test_a_link_in_place_of_a_file_is_passed_over(runtime: Path, tmp_path: Path) -> None:
    written()
    path = only(runtime)
    path.rename(tmp_path / "moved")
    path.symlink_to(tmp_path / "moved")
    assert read_states() == []


def test_no_secret_is_written(runtime: Path) -> None:
    StateFile(["logs"]).write(pictures.picture(snapshot=snapshots.hostile(f"token={SECRET}")))
    assert SECRET not in only(runtime).read_text()


def test_a_run_without_anything_has_a_state(runtime: Path) -> None:
    StateFile(["logs"]).write(pictures.picture(snapshot=None, state=RunState.LOADING))
    [state] = read_states()
    assert (state.run, state.severity, state.observed, state.values) == ("loading", "", False, ())


def test_where_the_folder_is_gone_names_stay_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here := tmp_path / "here").mkdir()
    monkeypatch.chdir(here)
    here.rmdir()
    assert absolute(["/a/../b", "demo-stall"]) == ("/b", "demo-stall")
