"""`perfmon export trace`: a run of logs in Chrome's format, with what a reader of that format needs."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from streams import peaknet, queue

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


def holding(events: list[Event], arrow: Event) -> Event:
    """The slice that an end of an arrow binds to: the innermost one of its thread that has begun, and is not over."""
    place = arrow["pid"], arrow["tid"]
    held = [
        one
        for one in of(events, "X")
        if (one["pid"], one["tid"]) == place and one["ts"] <= arrow["ts"] < one["ts"] + one["dur"]
    ]
    return min(held, key=lambda one: float(one["dur"]))


def bound_arrows(events: list[Event]) -> list[tuple[Event, Event]]:
    """Both ends of every arrow, as a reader of the format joins them."""
    arrows: dict[tuple[object, ...], dict[str, Event]] = defaultdict(dict)
    for event in of(events, "s", "f"):
        pair = arrows[event["cat"], event["name"], event["id"]]
        assert event["ph"] not in pair
        pair[event["ph"]] = event
    for pair in arrows.values():
        assert pair["s"]["ts"] <= pair["f"]["ts"]
        assert pair["f"]["bp"] == "e"
        assert holding(events, pair["s"])["ts"] <= holding(events, pair["f"])["ts"]  # else viewers turn it round
    return [(pair["s"], pair["f"]) for pair in arrows.values()]


def exported(folder: Path, **logs: list[str]) -> list[Event]:
    """The events of a run with these logs."""
    (folder / "logs").mkdir(exist_ok=True)
    for path in (folder / "logs").iterdir():
        path.unlink()
    for name, lines in logs.items():
        (folder / "logs" / f"{name}.log").write_text("".join(f"{line}\n" for line in lines))
    assert main(["export", "trace", str(folder / "logs"), "-o", str(folder / "run.json")]) == ExitCode.DONE
    found: list[Event] = json.loads((folder / "run.json").read_text())["traceEvents"]
    return found


def test_every_process_and_thread_has_a_name(events: list[Event]) -> None:
    named = {(event["name"], event["pid"], event["tid"]) for event in of(events, "M")}
    used = [event for event in events if event["ph"] != "M"]
    assert {("process_name", event["pid"], 0) for event in used} <= named
    assert {("thread_name", event["pid"], event["tid"]) for event in used} <= named
    assert {event["ph"] for event in events} == {"M", "X", "C", "i", "s", "f"}


def test_slices_of_a_thread_are_apart_or_nested_and_units_are_microseconds(events: list[Event]) -> None:
    threads: dict[tuple[int, int], list[Event]] = defaultdict(list)
    for event in of(events, "X"):
        assert event["dur"] > 0
        threads[event["pid"], event["tid"]].append(event)
    for held in threads.values():
        held.sort(key=lambda event: (event["ts"], -event["dur"]))
        for before, after in pairwise(held):
            end = before["ts"] + before["dur"]
            assert end <= after["ts"] or after["ts"] + after["dur"] <= end
    updates = [event for event in of(events, "X") if event["name"] == "update_weights"]
    assert updates
    for update in updates:
        assert update["dur"] == pytest.approx(update["args"]["wall_ms"] * 1000, rel=0.01, abs=2000)


def test_arrows_begin_and_end_at_slices_of_both_sides(events: list[Event]) -> None:
    arrows = bound_arrows(events)
    assert len(arrows) == 2 * len([event for event in of(events, "X") if event["name"] == "update_weights"])
    for begin, end in arrows:
        assert begin["pid"] != end["pid"]  # the logs of the client and the server


def test_items_of_a_queue_are_followed_from_the_producer_to_the_consumer(tmp_path: Path) -> None:
    """12 items a second, in batches of 24 every 2 s; the consumer is 4 s behind."""
    put = queue(count=20, name="Q1", put=12, get=0)
    taken = [line.replace("produced=", "produced=0 was=") for line in queue(count=20, name="Q1", put=0, get=12)]
    taken = [f"{line.split(' produced=')[0]} produced=0 consumed={24 * at}" for at, line in enumerate(taken[2:], 1)]
    found = exported(tmp_path, producer=put, consumer=taken)
    arrows = bound_arrows(found)
    assert {begin["name"] for begin, _ in arrows} >= {"item 96 put into Q1", "item 96 taken from Q1"}
    logs = {event["pid"]: event["args"]["name"] for event in of(found, "M") if event["name"] == "process_name"}
    for begin, end in arrows:
        here, there = holding(found, begin), holding(found, end)
        item = int(begin["name"].split()[1])
        if here["name"].startswith("items"):  # never one that was put in before the first slice
            assert logs[here["pid"]].endswith("producer.log")
            assert here["args"]["first"] <= item <= here["args"]["last"]
        if there["name"] == f"item {item} taken":
            assert logs[there["pid"]].endswith("consumer.log")
        else:
            assert there["name"] == f"item {item}"
    waits = [event for event in of(found, "X") if "at_most_s" in event["args"]]
    assert {event["args"]["at_most_s"] for event in waits} == {4.0}


def test_batches_are_followed_by_their_numbers(tmp_path: Path) -> None:
    found = exported(tmp_path, pipeline=peaknet(batches=300))
    arrows = bound_arrows(found)
    puts = [(begin, end) for begin, end in arrows if "put into" in begin["name"]]
    for one in puts:
        push, waiting = (holding(found, event) for event in one)
        assert push["name"] == f"push 0/{waiting['args']['batch']}"
        assert int(one[0]["name"].split()[1]) == int(waiting["args"]["batch"]) + 1  # batches count from 0
    assert len(puts) == 5


def test_without_all_producers_there_are_no_arrows(tmp_path: Path) -> None:
    assert bound_arrows(exported(tmp_path, consumer=queue(put=1, get=12))) == []
    assert bound_arrows(exported(tmp_path, consumer=queue(put=0, get=12))) == []
    # One that counts from the start again: several processes under one name.
    again = [*queue(20), *[line.replace(" 08:15", " 08:16") for line in queue(20)]]
    assert bound_arrows(exported(tmp_path, consumer=again)) == []


def test_each_of_several_queues_has_its_own_lanes(tmp_path: Path) -> None:
    ahead = queue(name="parsed", put=lambda number: 12 if number else 24)
    found = exported(tmp_path, parse=ahead, store=queue(name="stored", put=lambda number: 3 if number else 9, get=3))
    lanes = {event["args"]["name"] for event in of(found, "M") if event["name"] == "thread_name"}
    assert lanes >= {f"{what} {name}" for what in ("put into", "in", "taken from") for name in ("parsed", "stored")}
    assert {begin["name"].split()[-1] for begin, _ in bound_arrows(found)} == {"parsed", "stored"}


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


def test_items_from_before_the_first_count_are_not_followed(tmp_path: Path) -> None:
    """The producer's first line counts 24 items: in which slice they were put in is not known."""
    put = queue(count=20, name="Q1", put=12, get=0)
    taken = [f"{line.split(' produced=')[0]} produced=0 consumed={6 * at}" for at, line in enumerate(put, 1)]
    arrows = bound_arrows(exported(tmp_path, producer=put, consumer=taken))
    assert min(int(begin["name"].split()[1]) for begin, _ in arrows) == 30
