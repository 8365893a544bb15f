"""A weight update that hangs is named while it hangs, and only as far as the server's log proves it."""

from __future__ import annotations

import pytest

from perfmon.clocks.alignment import align
from perfmon.core.config import Config
from perfmon.core.model import Block
from perfmon.diagnosis.result import Diagnosis
from perfmon.pipeline.session import Session

_DONE = [
    "2026-08-21 10:00:00 INFO [weights][aaa] client.send url=http://x t=100.0",
    "2026-08-21 10:00:01 INFO [weights][aaa] client.done wall_ms=1000 rpc_ms=990 queue_ms=10",
    "2026-08-21 10:00:30 INFO [weights][bbb] client.send url=http://x t=130.0",
]
_SERVED = [
    "2026-08-21 10:00:00 INFO [weights][aaa] server.recv path=/update_weights t=100.01",
    "2026-08-21 10:00:00 INFO [weights][aaa] rpc.start op=update_weights t=100.01",
    "2026-08-21 10:00:01 INFO [weights][aaa] rpc.done op=update_weights t=101.0 rpc_ms=990",
]


def _result_of(client: list[str], server: list[str], present: str) -> Diagnosis:
    session = Session(Config())
    for name, lines in (("client.log", client), ("server.log", server)):
        session.feed(session.add_source(name), Block("".join(f"{line}\n" for line in lines).encode(), 0, 1))
    alignment = align(session.store)
    start = next(state.first for state in session.store.sources if state.first is not None)
    hours, minutes, seconds = map(int, present.split(":"))
    now = start + 3600 * (hours - 10) + 60 * minutes + seconds
    return session.present((now - 600, now), alignment, now)


def test_a_wait_is_critical_before_it_ends() -> None:
    snapshot = _result_of(_DONE, [*_SERVED, "2026-08-21 10:00:50 INFO Engine 000: idle"], "10:00:51")
    (finding,) = [one for one in snapshot.findings if one.signature == "frontend-queue"]
    assert "20.0 s" in finding.sentence
    assert any("[weights][bbb] client.send" in line.text for line in finding.evidence)


def test_a_server_log_that_lags_proves_nothing() -> None:
    found = {finding.signature for finding in _result_of(_DONE, _SERVED, "10:05:00").findings}
    assert "frontend-queue" not in found


def test_a_wait_within_its_band_is_nothing_yet() -> None:
    served = [*_SERVED, "2026-08-21 10:00:30 INFO Engine 000: idle"]
    assert not _result_of(_DONE, served, "10:00:31").findings


def test_an_rpc_that_hangs_is_slow_loading() -> None:
    served = [
        *_SERVED,
        "2026-08-21 10:00:30 INFO [weights][bbb] server.recv path=/update_weights t=130.01",
        "2026-08-21 10:00:30 INFO [weights][bbb] rpc.start op=update_weights t=130.01",
        "2026-08-21 10:00:52 INFO Engine 000: idle",
    ]
    assert [one.signature for one in _result_of(_DONE, served, "10:00:53").findings] == ["slow-weight-load"]


def test_one_whose_end_was_lost_is_left_out() -> None:
    client = [*_DONE, "2026-08-21 10:00:40 INFO [weights][ccc] client.send url=http://x t=140.0"]
    client.append("2026-08-21 10:00:41 INFO [weights][ccc] client.done wall_ms=1000 rpc_ms=990 queue_ms=10")
    assert not _result_of(client, [*_SERVED, "2026-08-21 10:01:50 INFO Engine 000: idle"], "10:01:51").findings


_OTHER = [
    "2026-08-21 10:00:00 INFO [weights][abc] client.send url=http://y t=100.0",
    "2026-08-21 10:00:01 INFO [weights][abc] client.done wall_ms=1000 rpc_ms=990 queue_ms=10",
    "2026-08-21 10:00:30 INFO [weights][bcd] client.send url=http://y t=130.0",
    "2026-08-21 10:00:31 INFO [weights][bcd] client.done wall_ms=1000 rpc_ms=990 queue_ms=10",
]


def test_of_two_servers_one_may_hang_while_the_other_answers() -> None:
    snapshot = _result_of([*_DONE, *_OTHER], [*_SERVED, "2026-08-21 10:00:50 INFO Engine 000: idle"], "10:00:51")
    assert [one.identity for one in snapshot.findings if one.signature == "frontend-queue"] == [{"url": "http://x"}]


def test_one_server_proves_nothing_about_another() -> None:
    client = [*_DONE[:2], *_OTHER[:2], _OTHER[2]]
    assert not _result_of(client, [*_SERVED, "2026-08-21 10:00:50 INFO Engine 000: idle"], "10:00:51").findings


def test_what_has_begun_does_not_wait() -> None:
    served = [*_SERVED, "2026-08-21 10:00:30 INFO [weights][bbb] rpc.start op=update_weights t=130.01"]
    served.append("2026-08-21 10:00:34 INFO Engine 000: idle")
    assert [one.signature for one in _result_of(_DONE, served, "10:00:34").findings] != ["frontend-queue"]


def test_a_server_that_tells_of_no_arrival_proves_no_wait() -> None:
    served = [_SERVED[2], "2026-08-21 10:00:50 INFO Engine 000: idle"]
    assert not _result_of(_DONE, served, "10:00:51").findings


def test_a_client_that_ended_waits_no_more() -> None:
    client = [*_DONE, "2026-08-21 10:00:31 INFO Orchestrator finished."]
    assert not _result_of(client, [*_SERVED, "2026-08-21 10:00:50 INFO Engine 000: idle"], "10:00:51").findings


def _of_another_host(line: str, ahead_s: int = 7) -> str:
    """The same line, printed by a host whose clocks are ahead."""
    date, _, rest = line.partition(" INFO ")
    second = int(date[-2:]) + ahead_s
    head, t, moment = rest.partition(" t=")
    at, _, more = moment.partition(" ")
    return f"{date[:-2]}{second:02d} INFO {head}" + (f"{t}{float(at) + ahead_s} {more}".rstrip() if t else "")


@pytest.mark.parametrize("last", ["[weights][bbb] server.recv path=/update_weights t=130.01", "Engine 000: idle"])
def test_clocks_that_are_ahead_are_no_wait(last: str) -> None:
    served = [*_SERVED, f"2026-08-21 10:00:30 INFO {last}"]
    assert not _result_of(_DONE, [_of_another_host(line) for line in served], "10:00:38").findings


def test_nor_do_they_hide_one() -> None:
    served = [_of_another_host(line) for line in [*_SERVED, "2026-08-21 10:00:50 INFO Engine 000: idle"]]
    (finding,) = [one for one in _result_of(_DONE, served, "10:00:58").findings if one.signature == "frontend-queue"]
    assert "20.0 s" in finding.sentence


def test_before_any_update_has_ended_a_clock_that_is_ahead_is_no_wait() -> None:
    sent = "2026-08-21 10:00:30 INFO [weights][bbb] client.send url=http://x t=130.0"
    served = [
        "2026-08-21 10:00:37 INFO [weights][bbb] server.recv path=/update_weights t=137.01",
        "2026-08-21 10:00:37 INFO [weights][bbb] rpc.start op=update_weights t=137.01",
        "2026-08-21 10:00:38 INFO Engine 000: idle",
    ]
    assert not _result_of(["2026-08-21 10:00:20 INFO ready", sent], served, "10:00:39").findings
