"""Alerts outward: a real program, a real server, a terminal that is written to."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from pictures import alert, picture
from snapshots import finding, snapshot

from perfmon.alerting import notifications
from perfmon.alerting.notifications import Notifier, filled, message, notification
from perfmon.core.config import NotifyConfig
from perfmon.viewmodel import Alert

HIDDEN = "/services/T000/notshown"


class Server(HTTPServer):
    """Keeps what is posted, and answers as it is told to."""

    daemon_threads = True
    answer = 200

    def __init__(self) -> None:
        self.posts: list[tuple[str, dict[str, Any]]] = []
        self.gets: list[str] = []
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_address[1]}{HIDDEN}"


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Server

    def do_POST(self) -> None:
        """Keeps the document."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.posts.append((self.path, json.loads(body)))
        self.send_response(self.server.answer)
        if 300 < self.server.answer < 400:
            self.send_header("Location", f"http://127.0.0.1:{self.server.server_address[1]}/latest/meta-data")
        self.end_headers()

    def do_GET(self) -> None:
        """Where a redirect would lead."""
        self.server.gets.append(self.path)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    """A webhook on this machine."""
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def tell(config: NotifyConfig, *alerts: Alert) -> Notifier:
    """A notifier that has told of these alerts and ended."""
    notifier = Notifier(config)
    notifier.update(picture())
    notifier.update(picture(*alerts))
    notifier.close(wait_s=20.0)
    return notifier


def script(tmp_path: Path, code: str) -> tuple[str, ...]:
    """A command that runs some Python."""
    file = tmp_path / "told.py"
    file.write_text(code)
    return (sys.executable, str(file))


def test_a_program_gets_arguments_the_document_and_the_environment(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    code = (
        "import json, os, sys\n"
        "told = [sys.argv[2:], json.load(sys.stdin), os.environ['PERFMON_SIGNATURE'], os.environ['PERFMON_EVENT']]\n"
        "open(sys.argv[1], 'w').write(json.dumps(told))\n"
    )
    hostile = finding(sentence="$(touch owned); `touch owned` 'x' \x1b]0;t\x07 token=abcdef123456")
    command = (*script(tmp_path, code), str(out), "{severity}: {sentence}", '{"a": 1}')
    notifier = tell(NotifyConfig(command=command), alert(finding=hostile))
    arguments, document, signature, event = json.loads(out.read_text())
    assert notifier.failures == []
    assert arguments == ["critical: $(touch owned); `touch owned` 'x'  token=***", '{"a": 1}']
    assert (document["number"], document["sentence"], signature, event) == (
        1,
        "$(touch owned); `touch owned` 'x'  token=***",
        "frontend-queue",
        "firing",
    )


def test_a_value_is_never_taken_for_an_option() -> None:
    words = ("send", "--body", "{sentence}", "-x{title}")
    values = {"sentence": "--exec=evil", "title": "{sentence}"}
    assert filled(words, values) == ["send", "--body", " --exec=evil", "-x{sentence}"]


def test_a_program_that_is_missing_or_fails_is_told_once(tmp_path: Path) -> None:
    missing = tell(NotifyConfig(command=("perfmon-no-such-program",)), alert(), alert(2))
    assert missing.failures == ["notify.command failed: No such file or directory"]
    failing = tell(NotifyConfig(command=script(tmp_path, "raise SystemExit(3)")), alert(), alert(2))
    assert [printed.rpartition("exited")[2] for printed in failing.failures] == [" with 3"]


def test_a_program_that_hangs_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifications, "COMMAND_S", 0.3)
    hanging = script(tmp_path, "import signal\nsignal.pause()")
    assert "was stopped after" in tell(NotifyConfig(command=hanging), alert()).failures[0]


def test_closing_stops_a_program_that_still_runs(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    os.mkfifo(begun)
    code = f"import os, signal\nopen({str(begun)!r}, 'w').write(str(os.getpid()))\nsignal.pause()"
    notifier = Notifier(NotifyConfig(command=script(tmp_path, code)))
    notifier.update(picture())
    notifier.update(picture(alert()))
    pid = int(begun.read_text())
    notifier.close(wait_s=0.0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_webhook_gets_the_document(server: Server) -> None:
    notifier = tell(NotifyConfig(webhook=server.url), alert(finding=finding(sentence="<!channel> & @here")))
    assert notifier.failures == []
    [(path, document)] = server.posts
    assert path == HIDDEN
    assert document["text"] == "✗ CRIT Front-end queue saturation: &lt;!channel&gt; &amp; @\u200bhere"
    assert document["sentence"] == "<!channel> & @here"


def test_no_text_of_a_log_becomes_part_of_the_url(server: Server) -> None:
    hostile = finding(sentence="http://169.254.169.254/latest", identity={"url": "http://169.254.169.254/"})
    assert tell(NotifyConfig(webhook=server.url + "?t={sentence}"), alert(finding=hostile)).failures == []
    assert [path for path, _ in server.posts] == [f"{HIDDEN}?t={{sentence}}"]


@pytest.mark.parametrize("answer", [301, 302, 303, 307, 308, 404, 500])
def test_an_answer_other_than_yes_is_told_without_the_url(server: Server, answer: int) -> None:
    server.answer = answer
    notifier = tell(NotifyConfig(webhook=server.url), alert())
    assert notifier.failures == [f"notify.webhook failed: the server answered {answer}"]
    assert (len(server.posts), server.gets) == (1, [])


def test_a_server_that_is_not_there_or_hangs_is_told_without_the_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifications, "WEBHOOK_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}{HIDDEN}"
        assert tell(NotifyConfig(webhook=url), alert()).failures == ["notify.webhook failed: no answer within 0 s"]
    assert tell(NotifyConfig(webhook=url), alert()).failures == ["notify.webhook failed: Connection refused"]


def test_only_http_is_spoken(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    notifier = tell(NotifyConfig(webhook=f"file://{secret}"), alert())
    assert notifier.failures == ["notify.webhook failed: not an http or https URL"]
    assert "notshown" not in repr(NotifyConfig(webhook=f"http://h{HIDDEN}"))


def test_the_monitor_is_never_held_up_and_what_is_dropped_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifications, "COMMAND_S", 0.3)
    notifier = Notifier(NotifyConfig(command=script(tmp_path, "import signal\nsignal.pause()"), min_interval_s=0.0))
    notifier.update(picture())
    alerts = [alert(number) for number in range(1, notifications.WAITING + 10)]
    for upto in range(1, len(alerts) + 1):
        notifier.update(picture(*alerts[:upto]))
    assert notifier.dropped >= 8
    assert any("too slow" in printed for printed in notifier.failures)
    notifier.close(wait_s=0.0)


def test_bell_and_title_reach_the_terminal_and_the_title_goes_back() -> None:
    written: list[str] = []
    notifier = Notifier(NotifyConfig(bell=True, title=True), written.append)
    notifier.update(picture())
    notifier.update(picture(alert()))
    notifier.update(picture(alert(), snapshot=snapshot(verdict=None)))
    notifier.close()
    assert written == [
        "\x1b[22;2t\x1b]2;✗ CRIT Front-end queue saturation\a",
        "\a",
        "\x1b]2;✓ perfmon\a",
        "\x1b[23;2t",
    ]


def test_a_title_ends_no_sequence_and_begins_no_format() -> None:
    base = snapshot()
    assert base.verdict is not None
    bad = snapshot(verdict=replace(base.verdict, title="a\x07\x1b]52;c;eA==\x07b #(touch x) #[fg=red]"))
    written: list[str] = []
    Notifier(NotifyConfig(title=True), written.append).update(picture(snapshot=bad))
    assert written == ["\x1b[22;2t\x1b]2;✗ CRIT ab (touch x) [fg=red]\a"]


def test_nothing_leaves_unless_it_is_asked_for() -> None:
    written: list[str] = []
    notifier = Notifier(NotifyConfig(), written.append)
    notifier.update(picture())
    notifier.update(picture(alert()))
    notifier.close()
    assert written == []
    assert notifier._worker is None


def test_a_terminal_that_is_gone_ends_nothing() -> None:
    def gone(_: str) -> None:
        raise BrokenPipeError

    notifier = Notifier(NotifyConfig(title=True), gone)
    notifier.update(picture())
    assert notifier.failures == ["the terminal cannot be written: BrokenPipeError"]


def test_the_document_says_what_happened() -> None:
    document = message(notification(alert(), "resolved"))
    assert (document["event"], document["count"], document["lost_s"]) == ("resolved", 14, 186.2)
    assert document["text"].startswith("✓ resolved Front-end queue saturation: 14 of 15 weight updates")
    assert json.dumps(document)
