"""`perfmon export prometheus`, as a real program that is asked over HTTP."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from wsgiref.types import StartResponse, WSGIEnvironment

import pytest
from exporting import Exporting, caught_up, environment, exporting
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from terminals import wait

from perfmon.cli import main
from perfmon.core.errors import ExitCode
from perfmon.demo.output import write_demo
from perfmon.exporters.server import TOGETHER, Server, text


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exporting]:
    """An exporter on the logs of a run whose weight updates queue."""
    folder = tmp_path_factory.mktemp("demo")
    write_demo(folder / "logs", "frontend-queue", 0, 10.0)
    with exporting(folder, "logs") as running:
        yield running


def test_everything_of_the_run_is_told(demo: Exporting) -> None:
    found = demo.until(caught_up)
    assert [labels["signature"] for labels, _ in found["perfmon_finding"]] == ["frontend-queue"]
    assert found["perfmon_verdict_info"][0][0]["signature"] == "frontend-queue"
    [queue] = [value for labels, value in found["perfmon_window_queue_seconds"] if labels["stat"] == "p50"]
    assert 5.0 < queue < 30.0
    levels = {labels["metric"]: value for labels, value in found["perfmon_level"]}
    assert (levels["queue_ms"], levels["kv_usage"]) == (2.0, 0.0)
    limits = {labels["limit"]: value for labels, value in found["perfmon_limit_queue_seconds"]}
    assert limits == {"good": 0.1, "critical": 1.0}
    assert sum(value for _, value in found["perfmon_ledger_ratio"]) == pytest.approx(1.0)
    logs = {labels["log"].rpartition("/")[2]: value for labels, value in found["perfmon_source_bytes_total"]}
    assert set(logs) == {"orchestrator.log", "inference.log", "trainer.log"}
    assert sum(logs.values()) == sum(path.stat().st_size for path in demo._messages.parent.glob("logs/*"))
    assert found["perfmon_export_left_out_series"] == [({"family": ""}, 0.0)]
    assert found["perfmon_export_current"] == [({}, 1.0)]


def test_the_machine_is_asked_beside_the_logs(demo: Exporting) -> None:
    found = demo.until(lambda found: "perfmon_host_mem_used_bytes" in found and "perfmon_disk_used_ratio" in found)
    [(labels, cores)] = found["perfmon_host_cores"]
    assert labels == {"host": socket.gethostname()}
    assert cores == os.cpu_count()
    assert 0.0 < found["perfmon_disk_used_ratio"][0][1] < 1.0
    assert {labels["area"] for labels, _ in found["perfmon_reading_age_seconds"]} >= {"host", "disk"}


def test_nothing_is_asked_where_that_is_not_wished(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text("[ckpt] write.done step=1 write_ms=234.5\n")
    with exporting(tmp_path, "run.log", "--no-polls") as running:
        found = running.until(caught_up)
        assert "perfmon_reading_age_seconds" not in found
        assert len(found["perfmon_source_lines_total"]) == 1


def test_a_command_of_the_user_is_exported(tmp_path: Path) -> None:
    with exporting(tmp_path, "command:echo depth=7") as running:
        found = running.until(lambda found: "perfmon_value_value" in found)
        assert 7.0 in [value for _, value in found["perfmon_value_value"]]


def test_openmetrics_when_it_is_asked_for(demo: Exporting) -> None:
    demo.until(caught_up)
    text = demo.get(accept="application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5")
    assert text.endswith("# EOF\n")
    names = {family.name for family in read_openmetrics(text)}  # type: ignore[no-untyped-call]
    assert {"perfmon_build", "perfmon_source_lines", "perfmon_window_queue_seconds"} <= names


def test_other_pages(demo: Exporting) -> None:
    demo.until(caught_up)
    front = demo.get("/")
    assert front.startswith("perfmon: Front-end queue saturation: ")
    assert front.count("\n") == 1
    assert demo.get("/-/healthy") == "perfmon is healthy\n"
    connection = http.client.HTTPConnection(*demo.address, timeout=20)
    answers = []
    for method, path in (("GET", "/x"), ("HEAD", "/metrics"), ("POST", "/metrics"), ("GET", "/../../etc/passwd")):
        connection.request(method, path)
        with connection.getresponse() as answer:
            answers.append((answer.status, len(answer.read())))
        connection.close()
    assert [status for status, _ in answers] == [404, 405, 405, 404]


def test_a_client_that_says_nothing_keeps_nobody_waiting(demo: Exporting) -> None:
    silent = [socket.create_connection(demo.address) for _ in range(4)]
    try:
        silent[0].sendall(b"GET /metrics HTTP/1.1\r\nX: " + b"y" * 10_000)
        silent[1].sendall(b"\x00\xff\r\n\r\n")
        assert "perfmon_build_info" in demo.scrape()
    finally:
        for one in silent:
            one.close()


def test_lines_that_come_later_are_told(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text("[ckpt] write.done step=1 write_ms=234.5\n")
    with exporting(tmp_path, "run.log", "--no-polls") as running:
        running.until(lambda found: "perfmon_last_write_seconds" in found)
        with log.open("a") as more:
            more.write("[ckpt] write.done step=2 write_ms=8765.0\n")
        found = running.until(lambda found: found["perfmon_source_lines_total"][0][1] == 2.0)
        found = running.until(lambda found: found["perfmon_last_write_seconds"][0][1] > 1.0)
        assert found["perfmon_last_write_seconds"][0][1] == 8.765
        assert [value for labels, value in found["perfmon_level"] if labels["metric"] == "write_ms"] == [2.0]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, ExitCode.DONE), (signal.SIGINT, ExitCode.INTERRUPTED)])
def test_it_ends_cleanly_when_told_to(tmp_path: Path, number: int, code: int) -> None:
    (tmp_path / "run.log").write_text("[ckpt] write.done step=1 write_ms=234.5\n")
    with exporting(tmp_path, "run.log") as running:
        assert running.end(number) == code
        assert running.messages.count("\n") == 1
        with pytest.raises(OSError):  # noqa: PT011 - whatever the system calls it
            socket.create_connection(running.address, timeout=5).close()


def test_only_this_machine_can_ask_unless_told_otherwise(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text("[ckpt] write.done step=1 write_ms=234.5\n")
    with exporting(tmp_path, "run.log") as running:
        assert running.address[0] == "127.0.0.1"
    with exporting(tmp_path, "run.log", "--listen", "0.0.0.0") as running:  # noqa: S104 - that is the point
        assert "anyone who can reach this address can read them" in running.messages


def test_a_pipe_that_has_ended_is_still_told_of(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "perfmon", "export", "prometheus", "-", "--port", "0"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(tmp_path), cwd=tmp_path
    )
    assert process.stdin is not None
    assert process.stderr is not None
    try:
        process.stdin.write("[ckpt] write.done step=1 write_ms=8000.0\n")
        process.stdin.close()
        url = process.stderr.readline().split()[4].removesuffix("/metrics")
        running = Exporting(process, url, tmp_path / "none")
        (tmp_path / "none").write_text("")
        found = running.until(lambda found: ({"state": "ended"}, 1.0) in found["perfmon_monitor_state"])
        assert "perfmon_last_write_seconds" in found or running.until(lambda f: "perfmon_last_write_seconds" in f)
        assert running.end() == ExitCode.DONE
    finally:
        process.kill()
        process.wait(30)
        process.stderr.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run.log", "--listen", "no.such.name.invalid"], "--listen no.such.name.invalid: no such address"),
        (["run.log", "--listen", "203.0.113.7"], "203.0.113.7:9477: cannot listen: "),
        (["run.log", "--port", "70000"], "expected a port from 0 to 65535"),
        (["gone.log", "--port", "0"], "gone.log"),
        (["slurm://x", "--port", "0"], "slurm://x"),
        (["run.log", "--listen", "a b\x1b[31m"], "no such address"),
    ],
)
def test_what_is_wrong_is_one_line(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.log").write_text("[ckpt] write.done step=1 write_ms=234.5\n")
    assert main(["export", "prometheus", *arguments]) == ExitCode.USAGE
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
    assert "\x1b" not in err


def test_a_taken_port_is_one_line_and_is_told_first(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = str(taken.getsockname()[1])
        done = subprocess.run(
            [sys.executable, "-m", "perfmon", "export", "prometheus", "x@gone.invalid:/a.log", "--port", number],
            cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
    assert done.returncode == ExitCode.USAGE
    assert done.stderr == (
        f"perfmon: 127.0.0.1:{number}: cannot listen: {os.strerror(98)}"
        " (already in use: choose another with --port, or --port 0 for any)\n"
    )


def ask(server: Server, path: str) -> tuple[int, bytes]:
    """Status and body."""
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=20)
    connection.request("GET", path)
    with connection.getresponse() as answer:
        outcome = answer.status, answer.read()
    connection.close()
    return outcome


def test_a_page_that_cannot_be_made_says_so_and_the_next_one_comes(capfd: pytest.CaptureFixture[str]) -> None:
    def app(environ: WSGIEnvironment, start: StartResponse) -> list[bytes]:
        if environ["PATH_INFO"] == "/bad":
            raise ValueError("odd\ntoken=abcdef1234567")
        return text(start, "200 OK", "good")

    server = Server("127.0.0.1", 0)
    server.start(app)
    try:
        assert ask(server, "/bad") == (500, b"internal error: ValueError: oddtoken=***\n")
        assert ask(server, "/good") == (200, b"good\n")
    finally:
        server.close()
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:9477", 200),
        ("[::1]:9477", 200),
        ("10.0.0.5", 200),
        ("LocalHost:1", 200),
        ("Metrics.Example:9477", 200),
        ("rebound.example:9477", 421),
        ("127.0.0.1.rebound.example", 421),
        ("", 421),
        ("[bad", 421),
    ],
)
def test_only_requests_for_this_host_are_served(host: str, status: int) -> None:
    server = Server("127.0.0.1", 0, ["metrics.example"])
    server.start(lambda _, start: text(start, "200 OK", "good"))
    try:
        connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=20)
        connection.request("GET", "/metrics", headers={"Host": host})
        with connection.getresponse() as answer:
            assert (answer.status, b"--allow-host" in answer.read()) == (status, status == 421)
        connection.close()
    finally:
        server.close()


def test_too_many_requests_at_once_are_refused_and_the_next_one_is_answered() -> None:
    busy = threading.Barrier(TOGETHER + 1)
    end = threading.Event()

    def app(environ: WSGIEnvironment, start: StartResponse) -> list[bytes]:
        if environ["PATH_INFO"] == "/slow":
            busy.wait(20)
            end.wait(20)
        return text(start, "200 OK", "done")

    server = Server("127.0.0.1", 0)
    server.start(app)
    try:
        with ThreadPoolExecutor(TOGETHER) as pool:
            slow = [pool.submit(ask, server, "/slow") for _ in range(TOGETHER)]
            busy.wait(20)
            assert ask(server, "/") == (503, b"too many requests at once\n")
            end.set()
            assert {one.result() for one in slow} == {(200, b"done\n")}
        assert ask(server, "/") == (200, b"done\n")
    finally:
        server.close()


def test_a_client_that_goes_away_gives_its_place_back(capfd: pytest.CaptureFixture[str]) -> None:
    def app(environ: WSGIEnvironment, start: StartResponse) -> list[bytes]:
        return text(start, "200 OK", "x" * (8 << 20 if environ["PATH_INFO"] == "/large" else 4))

    server = Server("127.0.0.1", 0)
    server.start(app)
    host, _, port = server.url.removeprefix("http://").partition(":")
    try:
        for _ in range(TOGETHER + 1):
            with socket.create_connection((host, int(port))) as gone:
                gone.sendall(b"GET /large HTTP/1.1\r\n\r\n")
                gone.recv(10)
        wait(lambda: ask(server, "/")[0] == 200, "a place")
    finally:
        server.close()
    assert capfd.readouterr().err == ""
