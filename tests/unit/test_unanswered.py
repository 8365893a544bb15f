"""What a killed process left open is told, with its line; of a weight update how far it came."""

from __future__ import annotations

import pytest

from perfmon.pipeline.offline import diagnose_texts

_CLIENT = (
    "2026-08-21 10:00:00 INFO [weights][aaa] client.send url=http://x t=100.0\n"
    "2026-08-21 10:00:01 INFO [weights][aaa] client.done wall_ms=1000 rpc_ms=990 queue_ms=10\n"
    "2026-08-21 10:00:30 INFO [weights][bbb] client.send url=http://x t=130.0\n"
)
_SERVER = (
    "2026-08-21 10:00:00 INFO [weights][aaa] server.recv path=/update_weights t=100.01\n"
    "2026-08-21 10:00:00 INFO [weights][aaa] rpc.start op=update_weights t=100.01\n"
    "2026-08-21 10:00:01 INFO [weights][aaa] rpc.done op=update_weights t=101.0 rpc_ms=990\n"
)
_RECEIVED = "2026-08-21 10:00:31 INFO [weights][bbb] server.recv path=/update_weights t=131.01\n"
_ON = "2026-08-21 10:01:30 INFO Engine 000: idle\n"
_DONE = "2026-08-21 10:00:50 INFO [weights][ccc] client.done wall_ms=1000 rpc_ms=990 queue_ms=10\n"


def _notes(client: str, server: str, message: str = "never finished") -> list[str]:
    snapshot = diagnose_texts({"client.log": client, "server.log": server})
    return [note for source in snapshot.run.sources for note in source.notes if message in note]


@pytest.mark.parametrize(
    ("client", "server", "message"),
    [
        (_CLIENT, _SERVER, ["ends 0 ms later", "no server log mentions it"]),
        (_CLIENT + _ON, _SERVER, ["ends 60.0 s later", "no server log mentions it"]),
        (_CLIENT, _SERVER + _ON, ["no server log mentions it, although server.log continues for 60.0 s"]),
        (_CLIENT, _SERVER + _RECEIVED + _ON, ["the last server line about it is in server.log, line 4"]),
    ],
)
def test_one_that_was_left_open_is_told(client: str, server: str, message: list[str]) -> None:
    (note,) = _notes(client, server)
    assert note.startswith("line 3: weight update bbb was sent and never finished")
    assert all(part in note for part in message), note


def test_one_that_others_followed_lost_its_line() -> None:
    assert not _notes(_CLIENT + _DONE.replace("ccc", "bbb"), _SERVER)
    later = "2026-08-21 10:00:49 INFO [weights][ccc] client.send url=http://x t=149.0\n"
    assert not _notes(_CLIENT + later + _DONE, _SERVER)


_AGAIN = (
    "2026-08-21 10:00:49 INFO [weights][ccc] client.send url=http://x t=149.0\n" + _DONE,
    "2026-08-21 10:01:00 INFO [weights][ddd] client.send url=http://x t=160.0\n",
    "2026-08-21 10:01:30 INFO [weights][eee] client.send url=http://x t=190.0\n"
    + _DONE.replace("ccc", "eee").replace("10:00:50", "10:01:31"),
)


def test_of_those_that_others_followed_it_is_said_how_many_have_no_end() -> None:
    assert _notes(_CLIENT + _AGAIN[0], _SERVER, "without client.done") == [
        "1 weight update without client.done, others followed (line 3, bbb): failed, killed, or the line was "
        "lost; their waiting time is not counted"
    ]
    (note,) = _notes(_CLIENT + "".join(_AGAIN), _SERVER, "without client.done")
    assert note.startswith("2 weight updates without client.done, others followed (line 3, bbb)")
    assert not _notes(_CLIENT, _SERVER, "without client.done")
    assert not _notes(_CLIENT + _DONE.replace("ccc", "bbb"), _SERVER, "without client.done")


# --- what else begins and ends ----------------------------------------------------------------------------------------
_WAIT = (
    "2026-08-21 10:00:00 INFO [ckpt] wait.start target_step=8\n"
    "2026-08-21 10:00:01 INFO [ckpt] wait.done target_step=8 wait_ms=1000.0\n"
    "2026-08-21 10:00:30 INFO [ckpt] wait.start target_step=9\n"
)
_WAIT_ON = (
    "2026-08-21 10:00:40 INFO [ckpt] wait.start target_step=10\n"
    "2026-08-21 10:00:41 INFO [ckpt] wait.done target_step=10 wait_ms=1000.0\n"
)
_BATCH = (
    "2026-08-21 10:00:00 INFO [gen] batch.start inflight=96 target_batch=64\n"
    "2026-08-21 10:00:01 INFO [gen] batch.done completions=64 dur_ms=1000.0 inflight=96\n"
    "2026-08-21 10:00:30 INFO [gen] batch.start inflight=96 target_batch=64\n"
)
_RPC = _SERVER + (
    "2026-08-21 10:00:30 INFO [weights][bbb] server.recv path=/update_weights t=130.0\n"
    "2026-08-21 10:00:30 INFO [weights][bbb] rpc.start op=update_weights t=130.1\n"
)
_RPC_ON = _SERVER.replace("aaa", "ccc").replace(":00 INFO", ":40 INFO").replace(":01 INFO", ":41 INFO")
_FAILED = "2026-08-21 10:00:31 INFO [weights][bbb] client.done wall_ms=1000.0 error=ReadError\n"
_OPEN_RPC = "line 5: the RPC of weight update bbb never ended: the log ends without its rpc.done"


def _message_of(**logs: str) -> list[str]:
    snapshot = diagnose_texts({f"{name}.log": text for name, text in logs.items()})
    return [note for source in snapshot.run.sources for note in source.notes if "ended" in note or "without" in note]


@pytest.mark.parametrize(
    ("log", "result"),
    [
        (
            _WAIT + _ON,
            "line 3: checkpoint wait 9 never ended: the log ends 60.0 s later without its wait.done",
        ),
        (_BATCH, "line 3: generation batch never ended: the log ends 0 ms later without its batch.done"),
        (_RPC, _OPEN_RPC),
        (
            _WAIT + _WAIT_ON,
            "1 checkpoint wait without wait.done, others followed (line 3, 9): failed, killed, or the line was "
            "lost; their waiting time is not counted",
        ),
        (
            _RPC + _RPC_ON,
            "1 RPC without rpc.done, others followed (line 4, bbb): failed, killed, or the line was lost; their "
            "waiting time is not counted",
        ),
    ],
)
def test_what_a_killed_process_began_is_told(log: str, result: str) -> None:
    assert _message_of(one=log) == [result]


def test_an_rpc_whose_client_failed_is_told_in_the_servers_log() -> None:
    client, server = _message_of(client=_CLIENT + _FAILED, server=_RPC)
    assert client.startswith("1 of 2 weight updates ended without RPC details (first in line 4, bbb;")
    assert server == _OPEN_RPC


@pytest.mark.parametrize(
    "log",
    [
        _WAIT + "2026-08-21 10:00:31 INFO [ckpt] wait.done target_step=9 wait_ms=1000.0\n",
        _WAIT + "2026-08-21 10:00:31 INFO Orchestrator finished\n",
        _BATCH + "2026-08-21 10:00:31 INFO [gen] batch.done dur_ms=1000.0 error=CancelledError\n",
        _RPC + "2026-08-21 10:00:31 INFO [weights][bbb] rpc.done op=update_weights t=131.0 rpc_ms=900 error=OSError\n",
        _SERVER,
    ],
)
def test_what_ended_or_was_ended_is_not(log: str) -> None:
    assert _message_of(one=log) == []


def test_updates_that_failed_are_told_though_they_are_in_no_figure() -> None:
    failed = "".join(
        f"2026-08-21 10:{at}:00 INFO [weights][f{at}] client.send url=http://x t={at}00.0\n"
        f"2026-08-21 10:{at}:30 INFO [weights][f{at}] client.done wall_ms=30000.0 error=ReadTimeout\n"
        for at in (11, 12)
    )
    whole = _CLIENT[: _CLIENT.index("2026-08-21 10:00:30")]
    assert _message_of(client=whole + failed, server=_SERVER) == [
        "2 of 3 weight updates ended without RPC details (first in line 4, f11; they took 30.0 s at the "
        "median): failed, or answered without rpc_ms; their waiting time is not counted"
    ]


def test_what_the_server_tells_of_the_rpc_is_told() -> None:
    answered = _CLIENT.replace(" rpc_ms=990 queue_ms=10", "").partition("2026-08-21 10:00:30")[0]
    assert _message_of(client=answered, server=_SERVER) == []
