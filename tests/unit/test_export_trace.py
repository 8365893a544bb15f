"""`perfmon export trace`: a run of logs in Chrome's format, with what a reader of that format needs."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from perfmon.cli import main
from perfmon.core.errors import ExitCode
from perfmon.demo.output import write_demo

Event = dict[str, Any]


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The trace of the simulated run."""
    folder = tmp_path_factory.mktemp("run")
    write_demo(folder / "logs")
    target = folder / "run.json.gz"
    assert main(["export", "trace", str(folder / "logs"), "-o", str(target)]) == ExitCode.DONE
    made: dict[str, Any] = json.loads(gzip.decompress(target.read_bytes()))
    return made


@pytest.fixture(scope="module")
def events(document: dict[str, Any]) -> list[Event]:
    found: list[Event] = document["traceEvents"]
    return found


def of(events: list[Event], *phases: str) -> list[Event]:
    return [event for event in events if event["ph"] in phases]


def test_every_process_and_thread_has_a_name(events: list[Event]) -> None:
    named = {(event["name"], event["pid"], event["tid"]) for event in of(events, "M")}
    used = [event for event in events if event["ph"] != "M"]
    assert {("process_name", event["pid"], 0) for event in used} <= named
    assert {("thread_name", event["pid"], event["tid"]) for event in used} <= named
    assert {event["ph"] for event in events} == {"M", "X", "C", "i", "s", "f"}


def test_slices_of_a_thread_never_overlap_and_units_are_microseconds(events: list[Event]) -> None:
    threads: dict[tuple[int, int], list[Event]] = defaultdict(list)
    for event in of(events, "X"):
        assert event["dur"] >= 0
        threads[event["pid"], event["tid"]].append(event)
    for held in threads.values():
        held.sort(key=lambda event: event["ts"])
        for before, after in pairwise(held):
            assert before["ts"] + before["dur"] <= after["ts"] + 0.01
    updates = [event for event in of(events, "X") if event["name"] == "update_weights"]
    assert updates
    for update in updates:
        assert update["dur"] == pytest.approx(update["args"]["wall_ms"] * 1000, rel=0.01, abs=2000)


def test_arrows_begin_and_end_at_slices_of_both_sides(events: list[Event]) -> None:
    slices = {(event["pid"], event["tid"]): [] for event in of(events, "X")}  # type: dict[tuple[int, int], list[Event]]
    for event in of(events, "X"):
        slices[event["pid"], event["tid"]].append(event)
    arrows: dict[int, dict[str, Event]] = defaultdict(dict)
    for event in of(events, "s", "f"):
        assert event["ph"] not in arrows[event["id"]]
        arrows[event["id"]][event["ph"]] = event
        held = slices[event["pid"], event["tid"]]
        assert any(one["ts"] - 0.01 <= event["ts"] <= one["ts"] + one["dur"] + 0.01 for one in held)
    assert len(arrows) == 2 * len([event for event in of(events, "X") if event["name"] == "update_weights"])
    for pair in arrows.values():
        assert pair["s"]["ts"] <= pair["f"]["ts"]
        assert pair["s"]["pid"] != pair["f"]["pid"]  # the logs of the client and the server
        assert pair["f"]["bp"] == "e"


def test_counters_have_numbers_and_findings_their_time(events: list[Event]) -> None:
    counters = of(events, "C")
    assert "queue_ms" in {event["name"].split()[0] for event in counters}
    assert all(isinstance(value, int | float) for event in counters for value in event["args"].values())
    findings = next(e["pid"] for e in of(events, "M") if e["args"].get("name") == "findings (perfmon)")
    assert "Front-end queue saturation" in {event["name"] for event in of(events, "X") if event["pid"] == findings}


def test_the_profile_command_reads_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_demo(tmp_path / "logs")
    assert main(["export", "trace", str(tmp_path / "logs"), "-o", str(tmp_path / "run.json")]) == ExitCode.DONE
    assert "events; open it at ui.perfetto.dev" in capsys.readouterr().err
    assert main(["profile", str(tmp_path / "run.json")]) == 2
    assert "no GPU events" in capsys.readouterr().err


def test_a_log_without_a_clock_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run.log").write_text("".join(f"step {at} loss 2.{at}\n" for at in range(9)))
    assert main(["export", "trace", str(tmp_path / "run.log")]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "no log has timestamps" in err


def test_times_of_dated_logs_are_microseconds_since_1970(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = "2026-03-02 08:15:{:02d}+0000 [ckpt] write.done step={} write_ms=500.0\n"
    (tmp_path / "run.log").write_text("".join(line.format(at, at) for at in range(1, 20)))
    assert main(["export", "trace", str(tmp_path / "run.log")]) == ExitCode.DONE
    writes = of(json.loads(capsys.readouterr().out)["traceEvents"], "X")
    assert (writes[0]["ts"], writes[0]["dur"]) == (1_772_439_300_500_000, 500_000)


def test_hostile_text_stays_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = '2026-03-02 08:15:{:02d} [weights][u"\\\x1b[31m{}] client.done url=http://i path=/u op=</script> wall_ms=9\n'
    (tmp_path / "run.log").write_text("".join(line.format(at, at) for at in range(20)))
    assert main(["export", "trace", str(tmp_path / "run.log")]) == ExitCode.DONE
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert json.loads(out)["traceEvents"]
