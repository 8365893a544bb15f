"""Polling metrics pages of any kind, trainers, and commands of the user's."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest
from endpoints import endpoint, ok

from perfmon.sources.pollers.base import LocalMachine
from perfmon.sources.pollers.command import MOST_VALUES, CommandPoller, numbers_in
from perfmon.sources.pollers.metrics_page import MOST_FOUND, PrometheusPoller, parse_prometheus
from perfmon.sources.pollers.reading import Area, Poller, PollError, format_reading, parse_reading
from perfmon.sources.pollers.request import PollRequest
from perfmon.sources.pollers.scheduler import make_pollers

PAGE = """\
# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total 12.5
# TYPE queue_depth gauge
queue_depth{queue="a b"} 7
queue_depth{queue="c"} 9
# TYPE jobs counter
jobs_total{state="ok"} 100
# TYPE latency_seconds histogram
latency_seconds_bucket{le="0.1"} 10
latency_seconds_bucket{le="1"} 10
latency_seconds_bucket{le="+Inf"} 10
latency_seconds_sum 0.5
latency_seconds_count 10
"""


async def result_of(poller: Poller) -> dict[str, float]:
    """Name, without the endpoint, to value of one poll."""
    return {reading.name.partition("/")[2] or reading.name: reading.values["value"] for reading in await poller.poll()}


async def test_a_page_is_told_without_being_asked_for_names() -> None:
    async with endpoint() as server:
        server.serve(PAGE)
        times = iter((0.0, 5.0))
        poller = PrometheusPoller(LocalMachine(), parse_prometheus(server.url)[0], (), lambda: next(times))
        assert await result_of(poller) == {"queue_depth/a_b": 7.0, "queue_depth/c": 9.0}
        server.serve(PAGE.replace("} 100", "} 160").replace('"1"} 10', '"1"} 30').replace('Inf"} 10', 'Inf"} 30'))
        second = await result_of(poller)
    assert second["jobs/ok_per_s"] == 12.0
    assert second["latency_seconds_p50"] == pytest.approx(0.55)
    assert "process_cpu_seconds_per_s" not in second


async def test_names_that_are_chosen() -> None:
    async with endpoint() as server:
        server.serve(PAGE)
        (poller,) = make_pollers(
            LocalMachine(), PollRequest("prometheus", f"{server.url}#queue_depth,process_cpu_seconds_total")
        )
        await poller.poll()
        assert set(await result_of(poller)) == {"queue_depth/a_b", "queue_depth/c", "process_cpu_seconds_per_s"}


async def test_names_that_are_not_there() -> None:
    async with endpoint() as server:
        server.serve(PAGE)
        (poller,) = make_pollers(LocalMachine(), PollRequest("prometheus", f"{server.url}#depth,width"))
        with pytest.raises(PollError, match="none of depth, width on this page"):
            await poller.poll()


async def test_a_page_of_endless_values_is_cut() -> None:
    page = "# TYPE depth gauge\n" + "".join(f'depth{{n="{n}"}} 1\n' for n in range(500))
    async with endpoint() as server:
        server.serve(page)
        (poller,) = make_pollers(LocalMachine(), PollRequest("prometheus", server.url))
        values = await result_of(poller)
    assert (len(values), values["left_out"]) == (MOST_FOUND + 1, 460.0)


TRAINER = """\
# TYPE trainer_step gauge
trainer_step 42.0
trainer_loss -0.0021
trainer_throughput_tokens_per_sec 7112.0
trainer_mfu_percent 25.1
trainer_peak_memory_gib 71.3
trainer_last_step_timestamp_seconds {at}
"""


async def test_a_trainer_tells_each_step_once() -> None:
    async with endpoint() as server:
        server.serve(TRAINER.format(at=time.time() - 30))
        (poller,) = make_pollers(LocalMachine(), PollRequest("prime-rl", server.url))
        (first,) = await poller.poll()
        assert first.values["step"] == 42.0
        assert 29 < first.values["step_age_s"] < 90
        assert "new_step" not in first.values, "it may have ended long ago"
        server.serve(TRAINER.format(at=time.time()).replace("42.0", "43.0"))
        assert [(await poller.poll())[0].values.get("new_step") for _ in range(2)] == [43.0, None]


async def test_a_page_that_is_no_trainers() -> None:
    async with endpoint() as server:
        server.pages["/metrics"] = ok(b"up 1\n")
        (poller,) = make_pollers(LocalMachine(), PollRequest("prime-rl", server.url))
        with pytest.raises(PollError, match="no metrics of a prime-rl trainer on this page"):
            await poller.poll()


@pytest.mark.parametrize(
    ("printed", "values"),
    [
        ("17", {"x": 17.0}),
        (" 17.5 %", {"x": 17.5}),
        ("-1e3\nmore", {"x": -1000.0}),
        ("depth=3 rate=1.5e2", {"depth": 3.0, "rate": 150.0}),
        ("depth: 3\nrate : 4", {"depth": 3.0, "rate": 4.0}),
        ("a=1\na=2", {"a": 1.0}),
        ("a=1e999 b=2", {"b": 2.0}),
        ("load 3", {}),
        ("version=1.2.3 at=12:30", {}),
        ("\x1b[31ma=1\x1b[0m", {"a": 1.0}),
        ("nothing here", {}),
        ("", {}),
    ],
)
def test_numbers_that_commands_print(printed: str, values: dict[str, float]) -> None:
    assert dict(numbers_in(printed.splitlines(), "x")) == values


async def test_a_command_runs_in_a_shell() -> None:
    assert await result_of(CommandPoller(LocalMachine(), "printf 'depth=%s\\n' 5 | cat; echo \"q='7'\"; echo z=1")) == {
        "depth": 5.0,
        "z": 1.0,
    }
    (reading,) = await CommandPoller(LocalMachine(), "ls / | wc -l; true 'secret=hunter22'").poll()
    assert reading.area is Area.VALUE
    assert "hunter22" not in reading.name


async def test_what_a_command_prints_stays_one_word() -> None:
    (reading,) = await CommandPoller(LocalMachine(), "printf 'a=1 name=evil\\r\\033[2J[poll] gpu host=x'").poll()
    line = format_reading(reading, "here", "2026-03-02 08:15:07.118").decode()
    found = parse_reading(line)
    assert found is not None
    assert (found[1].area, found[1].name, found[1].values) == (Area.VALUE, "a", {"value": 1.0})


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("exit 3", "ended with status 3"),
        ("echo broken; exit 1", "ended with status 1: broken"),
        ("there-is-no-such-command", "ended with status 127"),
        ("echo hello", "printed neither a number nor key=value: hello"),
        ("true", "printed neither a number nor key=value"),
        ("if", "ended with status 2"),
        ("yes 1", "printed more than 64 KiB or 1000 lines"),
        ("head -c 2000000 /dev/zero", "printed more than 64 KiB or 1000 lines"),
    ],
)
async def test_a_command_that_fails_gets_one_line(command: str, why: str) -> None:
    with pytest.raises(PollError) as caught:
        await CommandPoller(LocalMachine(), command).poll()
    assert str(caught.value) == f"command '{command}' {why}"


async def test_a_command_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    command = f"sleep 600 & echo $! >{tmp_path}/pid; echo 1; wait"
    with pytest.raises(PollError, match="timed out after 1 s"):
        await CommandPoller(LocalMachine(), command, deadline_s=1.0).poll()
    pid = int((tmp_path / "pid").read_text())
    for _ in range(50):
        state = _state(pid)
        if state in ("", "Z"):
            break
        await asyncio.sleep(0.1)
    assert state in ("", "Z")


def _state(pid: int) -> str:
    """Of a process; "" when there is none."""
    if not os.path.exists(f"/proc/{pid}/stat"):
        return ""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


async def test_many_values_of_a_command_are_cut() -> None:
    readings = await CommandPoller(LocalMachine(), "for i in $(seq 300); do echo k$i=1; done").poll()
    assert len(readings) == MOST_VALUES
