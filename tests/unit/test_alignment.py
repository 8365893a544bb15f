"""Clocks of several logs: dates, midnights, New Year, time zones, and monotonic clocks bounded by shared updates."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from perfmon.clocks.alignment import bounds
from perfmon.core.model import TimeBase, Update
from perfmon.diagnosis.result import ClockOffset, Diagnosis
from perfmon.pipeline.offline import diagnose_texts

QUEUE_S, RPC_S = 0.5, 1.0


def update(at: int, sent: float, offset: float, *, queue: float = QUEUE_S, answer: float = 0.001) -> tuple[str, str]:
    """The client's and the server's lines of an update, the server's clock `offset` ahead."""
    received = sent + queue
    done = received + RPC_S + answer
    client = (
        f"[weights][u{at}] client.send url=http://i:8000 path=/m/step_{at} t={sent:.6f}\n"
        f"[weights][u{at}] client.done wall_ms={1000 * (done - sent):.1f} rpc_ms={1000 * RPC_S:.1f} "
        f"queue_ms={1000 * (done - sent - RPC_S):.1f}\n"
    )
    times = [received + offset, received + offset, received + RPC_S + offset]
    server = (
        f"[weights][u{at}] server.recv path=/update_weights t={times[0]:.6f}\n"
        f"[weights][u{at}] rpc.start op=update_weights t={times[1]:.6f}\n"
        f"[weights][u{at}] rpc.done op=update_weights t={times[2]:.6f} rpc_ms={1000 * RPC_S:.1f}\n"
    )
    return client, server


def run(*updates: tuple[str, str]) -> Diagnosis:
    """The diagnosis of a client's and a server's log."""
    client, server = ("".join(lines) for lines in zip(*updates, strict=True))
    return diagnose_texts({"orchestrator.log": client, "inference.log": server})


def offset_of(snapshot: Diagnosis) -> ClockOffset:
    """The single offset."""
    [offset] = snapshot.clock_offsets
    return offset


def test_an_update_bounds_the_offset_from_both_sides() -> None:
    result = Update("weight-update", "a", 0, 0, send_t=10.0, recv_t=15.2, rpc_done_t=16.2, wall_ms=1300.0)
    assert bounds(result) == pytest.approx((4.9, 5.2))
    result.recv_t = None
    assert bounds(result) is None


@pytest.mark.parametrize("offset", [-5000.0, -3.0, 0.0, 7.25, 86400.0])
def test_the_bounds_of_all_updates_are_intersected(offset: float) -> None:
    loose = update(0, 10100.0, offset, queue=0.9, answer=0.9)
    tight = update(1, 10200.0, offset, queue=0.02, answer=0.9)
    tight_too = update(2, 10300.0, offset, queue=0.9, answer=0.01)
    found = offset_of(run(loose, tight, tight_too))
    assert found.offset_s == pytest.approx(offset, abs=0.02)
    assert found.uncertainty_s == pytest.approx(0.015, abs=0.002)
    assert (found.traces, found.contradictory, found.source) == (3, False, "inference.log")


def test_a_clock_that_stepped_contradicts_itself() -> None:
    snapshot = run(update(0, 100.0, 5.0), update(1, 200.0, 5.0), update(2, 300.0, 90.0))
    assert offset_of(snapshot).contradictory
    assert snapshot.skew_detected
    assert offset_of(snapshot).offset_s == pytest.approx(5.0, abs=0.5)


@pytest.mark.parametrize("zone_s", [0.0, 3600.0])
def test_where_every_update_waits_long_the_dates_of_the_lines_tell_the_offset(zone_s: float) -> None:
    def dated(text: str, times: list[float]) -> str:
        begin = datetime(2026, 3, 2, 8, 15)
        stamps = [(begin + timedelta(seconds=at)).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] for at in times]
        return "".join(f"{stamp} {line}\n" for stamp, line in zip(stamps, text.splitlines(), strict=True))

    updates = []
    for at in range(3):
        sent = 1000.0 + 40.0 * at
        client, server = update(at, sent, 4000.0, queue=12.0, answer=0.05)
        received, done = sent + 12.0, sent + 13.0
        lines = [at + zone_s for at in (received, received, done)]
        updates.append((dated(client, [sent, done + 0.05]), dated(server, lines)))
    found = offset_of(run(*updates))
    middle = 4000.0 + 6.0 - 0.025
    assert found.offset_s == pytest.approx(middle if zone_s else 4000.0, abs=0.01)
    assert found.uncertainty_s >= abs(found.offset_s - 4000.0)


def test_a_missing_server_log_gives_no_offset() -> None:
    snapshot = diagnose_texts({"orchestrator.log": update(0, 100.0, 0.0)[0]})
    assert (snapshot.clock_offsets, snapshot.traces_partial) == ((), 1)
    assert any("server side" in text for text in snapshot.unseen)


def test_a_server_log_with_only_monotonic_times_is_laid_on_the_clients_axis() -> None:
    lines = [update(at, 100.0 + 60 * at, 4000.0, queue=0.01) for at in range(4)]
    client = ""
    for at, (result, _) in enumerate(lines):
        send, done = result.splitlines()
        client += f"2026-03-02 10:{at:02d}:00.000 INFO {send}\n2026-03-02 10:{at:02d}:01.011 INFO {done}\n"
    server = "".join(result for _, result in lines)
    snapshot = diagnose_texts({"orchestrator.log": client, "inference.log": server})
    first, second = snapshot.run.sources
    assert snapshot.run.time_base is TimeBase.WALL
    assert second.first_s == pytest.approx(first.first_s, abs=0.1)
    assert snapshot.run.wall_s == pytest.approx(181.0, abs=0.2)


def spans(snapshot: Diagnosis) -> list[tuple[float, float]]:
    """First and last second of each log."""
    return [(source.first_s or 0.0, source.last_s or 0.0) for source in snapshot.run.sources]


def log(*stamps: str, text: str = "[ckpt] write.done step=1 write_ms=1.0") -> str:
    """One line at each stamp."""
    return "\n".join(f"{stamp} {text}" for stamp in stamps)


@pytest.mark.parametrize(
    ("logs", "wanted"),
    [
        pytest.param(
            [log("2026-03-02 10:00:00", "2026-03-02 10:10:00"), log("10:01:00    INFO", "10:05:00    INFO")],
            [(0, 600), (60, 300)],
            id="a time of day beside a date",
        ),
        pytest.param(
            [log("2026-03-02 23:50:00", "2026-03-03 00:10:00"), log("23:55:00    INFO", "00:05:00    INFO")],
            [(0, 1200), (300, 900)],
            id="over midnight",
        ),
        pytest.param(
            [
                log("2026-12-31 23:50:00", "2027-01-01 00:10:00"),
                log("INFO 12-31 23:55:00 [x.py:1]", "INFO 01-01 00:05:00 [x.py:1]"),
            ],
            [(0, 1200), (300, 900)],
            id="over New Year",
        ),
        pytest.param(
            [log("23:50:00    INFO", "00:10:00    INFO"), log("23:55:00    INFO", "00:05:00    INFO")],
            [(0, 1200), (300, 900)],
            id="two times of day over midnight",
        ),
        pytest.param(
            [
                log("2026-03-02T10:00:00.000+00:00", "2026-03-02T10:10:00.000+00:00"),
                log("2026-03-02T12:01:00.000+02:00", "2026-03-02T12:05:00.000+02:00"),
            ],
            [(0, 600), (60, 300)],
            id="two zones that are told",
        ),
    ],
)  # fmt: skip
def test_logs_are_laid_over_each_other(logs: list[str], wanted: list[tuple[float, float]]) -> None:
    snapshot = diagnose_texts({f"{at}.log": text for at, text in enumerate(logs)})
    assert spans(snapshot) == [pytest.approx(pair, abs=0.01) for pair in wanted]


def test_logs_that_share_no_time_are_noted() -> None:
    logs = {"a": log("2026-03-02 10:00:00", "2026-03-02 10:10:00"), "b": log("18:00:07    INFO", "18:05:07    INFO")}
    snapshot = diagnose_texts(logs)
    assert 0 <= snapshot.run.wall_s < 86400
    assert snapshot.run.time_base is TimeBase.WALL


def test_without_any_clock_there_is_no_time_base() -> None:
    assert diagnose_texts({"a": "[ckpt] write.done step=1 write_ms=1.0"}).run.time_base is TimeBase.NONE


# --- logs without dates ---------------------------------------------------------------------------------------
def steps(*times: str) -> str:
    """A log of steps at these times."""
    result = "{} SUCCESS Step {} |   1m 00s | Reward 0.4 | Truncation 5.0%"
    return "\n".join(result.format(time, at) for at, time in enumerate(times))


def minutes(hour: int, first: int, count: int, prefix: str = "") -> list[str]:
    """One time a minute, past midnight too."""
    return [f"{prefix}{(hour + m // 60) % 24:02d}:{m % 60:02d}:00" for m in range(first, first + count)]


def test_logs_without_dates_lie_over_each_other_across_midnight() -> None:
    snapshot = diagnose_texts({"a.log": steps(*minutes(23, 50, 30)), "b.log": steps(*minutes(0, 5, 10))})
    assert (snapshot.run.wall_s, snapshot.findings) == (30 * 60.0, ())
    assert (snapshot.run.sources[1].first_s, snapshot.run.sources[1].notes) == (16 * 60.0, ())


def test_logs_without_years_lie_over_each_other_across_new_year() -> None:
    line = "INFO {} [x.py:1] Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 1.0 tokens/s, "
    line += "Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 5.0%, Prefix cache hit rate: 0.0%"
    times = [*minutes(23, 30, 30, "12-31 "), *minutes(0, 0, 30, "01-01 ")]
    logs = {"a.log": times, "b.log": times[30:]}
    snapshot = diagnose_texts({name: "\n".join(map(line.format, held)) for name, held in logs.items()})
    assert snapshot.run.wall_s == pytest.approx(59 * 60.0)
    assert snapshot.run.sources[1].first_s == pytest.approx(30 * 60.0)


def test_all_logs_of_a_kind_get_one_zone() -> None:
    dated = "\n".join(f"{time} INFO line" for time in minutes(21, 30, 40, "2026-03-02 "))
    logs = {"i.log": dated, "o.log": steps(*minutes(23, 30, 45)), "t.log": steps(*minutes(0, 0, 15))}
    engine, orchestrator, trainer = diagnose_texts(logs).run.sources
    assert (engine.first_s, orchestrator.first_s, trainer.first_s) == (60.0, 60.0, 31 * 60.0)
    assert engine.notes == ()
    assert [len(log.notes) for log in (orchestrator, trainer)] == [1, 1]
    assert all("2h 00m ahead" in log.notes[0] for log in (orchestrator, trainer))


# --- monotonic clocks -----------------------------------------------------------------------------------------
def ticks(first: float, count: int, name: str = "a") -> str:
    """An update a minute on a monotonic clock."""
    result = "[weights][{}{}] rpc.done op=update_weights t={} rpc_ms=1000"
    return "\n".join(result.format(name, at, first + 60 * at) for at in range(count))


def test_monotonic_clocks_of_two_hosts_begin_together() -> None:
    snapshot = diagnose_texts({"a.log": ticks(1000, 20), "b.log": ticks(900000, 20, "b")})
    assert snapshot.run.wall_s == pytest.approx(19 * 60, abs=1)
    assert [len(log.notes) for log in snapshot.run.sources] == [0, 1]


# --- dates that cannot be ------------------------------------------------------------------------------------
ROLLOUT = "{} INFO [rollout] trunc_pct=2.0 current_step={} ckpt_step={} staleness=1"


def dates(*times: str) -> Diagnosis:
    """A log of rollouts at these times."""
    return diagnose_texts({"o.log": "\n".join(ROLLOUT.format(time, at + 1, at) for at, time in enumerate(times))})


@pytest.mark.parametrize("place", [0, 1, 10, 19])
@pytest.mark.parametrize("wrong", ["2096-01-01 00:00:00", "1970-01-01 00:00:00"])
def test_one_wrong_date_hides_nothing(place: int, wrong: str) -> None:
    times = minutes(10, 0, 20, "2026-03-02 ")
    times[place] = wrong
    snapshot = dates(*times)
    assert snapshot.run.wall_s == pytest.approx(19 * 60, abs=61)
    assert not snapshot.skew_detected
    assert bool(snapshot.run.sources[0].notes) == (place in (1, 10))


def test_a_pause_of_days_is_believed_once_it_is_confirmed() -> None:
    snapshot = dates(*minutes(10, 0, 20, "2026-03-02 "), *minutes(10, 0, 20, "2026-03-05 "))
    assert snapshot.run.wall_s == pytest.approx(3 * 86400 + 19 * 60)
    assert [finding.signature for finding in snapshot.findings] == ["stall"]


def test_a_clock_that_was_not_set_yet_is_moved_along() -> None:
    snapshot = dates(*minutes(0, 0, 5, "1970-01-01 "), *minutes(10, 0, 20, "2026-03-05 "))
    assert snapshot.run.wall_s < 1800


def test_a_monotonic_clock_that_starts_anew_goes_on() -> None:
    snapshot = diagnose_texts({"a.log": ticks(900000, 20) + "\n" + ticks(1000, 20, "b")})
    assert snapshot.run.wall_s == pytest.approx(38 * 60, abs=1)
    assert snapshot.skew_detected
    assert "went back 1 time" in snapshot.run.sources[0].notes[0]


def _hours(begin: int, minutes: int, form: str) -> str:
    """A line a minute from so many minutes after midnight on."""
    moments = [divmod(minute, 60) for minute in range(begin, begin + minutes)]
    return "".join(f"{form.format(hour, minute)} INFO [gen] batch.done dur_ms=900\n" for hour, minute in moments)


@pytest.mark.parametrize("minutes", [60, 119, 121, 125, 300, 600])
@pytest.mark.parametrize("form", ["2026-08-21 {:02d}:{:02d}:00", "08-21 {:02d}:{:02d}:00", "{:02d}:{:02d}:00"])
def test_a_zone_stays_what_it_is_however_long_the_logs_grow(form: str, minutes: int) -> None:
    logs = {
        "utc.log": _hours(480, minutes, "2026-08-21T{:02d}:{:02d}:00Z"),
        "local.log": _hours(602, minutes - 2, form),
    }
    assert diagnose_texts(logs).run.wall_s == pytest.approx(60.0 * minutes, abs=121.0)


def test_logs_that_began_and_ended_at_other_times_are_in_one_zone() -> None:
    logs = {
        "utc.log": _hours(480, 240, "2026-08-21T{:02d}:{:02d}:00Z"),
        "local.log": _hours(600, 180, "2026-08-21 {:02d}:{:02d}:00"),
    }
    assert diagnose_texts(logs).run.wall_s == pytest.approx(60.0 * 299, abs=1.0)
