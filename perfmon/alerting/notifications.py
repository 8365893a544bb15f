"""Notifications: which alerts are worth one, how often, and how they are sent."""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from http.client import HTTPException
from typing import Any

from perfmon.core import NotifyConfig, Severity, evidence_text, format_seconds, plain
from perfmon.viewmodel import Alert, AlertKey, AlertState, MonitorState, RunState

# --- Which alerts are reported, and when: what changed between pictures, held to a rate ---

BURST = 5
"""Messages of all alerts together within `min_interval_s`; the others wait, the worst are sent first."""


@dataclass(frozen=True, slots=True)
class Notification:
    """A change of an alert; its texts are plain and without secrets."""

    event: str
    """firing or resolved."""
    number: int
    severity: Severity
    signature: str
    title: str
    sentence: str
    identity: dict[str, str]
    count: int
    lost_s: float

    @property
    def text(self) -> str:
        """All of it in one line, for chats."""
        mark = "✓ resolved" if self.event == "resolved" else self.severity.label
        return f"{mark} {self.sentence if self.sentence.startswith(self.title) else f'{self.title}: {self.sentence}'}"

    @property
    def values(self) -> dict[str, str]:
        """The placeholders of commands and their values."""
        names = ("event", "severity", "signature", "title", "sentence", "count", "number")
        return {name: str(getattr(self, name)) for name in names} | {"lost": format_seconds(self.lost_s)}


def notification(alert: Alert, event: str) -> Notification:
    """Return what is reported of an alert."""
    finding = alert.finding
    signature, title, sentence = map(evidence_text, (finding.signature, finding.title, finding.sentence))
    identity = {evidence_text(name): evidence_text(value) for name, value in finding.identity.items()}
    severity, lost_s = finding.severity, alert.lost_s
    return Notification(event, alert.number, severity, signature, title, sentence, identity, alert.count, lost_s)


_NOT_YET = (None, AlertState.PENDING, AlertState.RESOLVED)


class Notifications:
    """Compares each picture with the one before. Of alerts that fire from the start only the end is reported."""

    def __init__(self, config: NotifyConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self._clock = clock
        self._burning: dict[AlertKey, Severity] | None = None
        """Firing alerts at their worst; None before the first picture of the present."""
        self._before: dict[AlertKey, AlertState] = {}
        self._silenced: set[AlertKey] = set()
        self._waiting: dict[AlertKey, Notification] = {}
        self._sent: dict[AlertKey, float] = {}
        self._recent: deque[float] = deque()

    def take(self, picture: MonitorState) -> list[Notification]:
        """Return the notifications that are due, the worst first."""
        if picture.state is RunState.LOADING:
            return []
        if self._burning is None:
            self._burning = {alert.key: alert.finding.severity for alert in picture.alerts if self._fires(alert)}
        else:
            for alert in picture.alerts:
                self._compare(alert, self._burning)
            there = {alert.key for alert in picture.alerts}
            self._burning = {key: severity for key, severity in self._burning.items() if key in there}
        self._before = {alert.key: alert.state for alert in picture.alerts}
        return self._due()

    def _fires(self, alert: Alert) -> bool:
        """Return true also for an alert that began to fire between two pictures, and is resolving already."""
        return alert.state is AlertState.FIRING or (
            alert.state is AlertState.RESOLVING and self._before.get(alert.key) in _NOT_YET
        )

    def _compare(self, alert: Alert, burning: dict[AlertKey, Severity]) -> None:
        key, severity = alert.key, alert.finding.severity
        if alert.state is AlertState.SILENCED:
            self._silenced.add(key)
            self._waiting.pop(key, None)
        elif self._fires(alert):
            self._silenced.discard(key)
            if key not in burning or severity.rank > burning[key].rank:
                burning[key] = severity
                self._wait(alert, "firing")
        elif alert.state is AlertState.RESOLVED and burning.pop(key, None) is not None:
            unheard = self._waiting.pop(key, None)
            if key not in self._silenced and (unheard is None or unheard.event == "resolved"):
                self._wait(alert, "resolved")
            self._silenced.discard(key)

    def _wait(self, alert: Alert, event: str) -> None:
        if event in self._config.on and alert.finding.severity.rank >= self._config.min_severity.rank:
            self._waiting[alert.key] = notification(alert, event)

    def _due(self) -> list[Notification]:
        now, interval = self._clock(), self._config.min_interval_s
        while self._recent and now - self._recent[0] >= interval:
            self._recent.popleft()
        self._sent = {key: then for key, then in self._sent.items() if now - then < interval}
        ready = sorted(
            (item for item in self._waiting.items() if item[0] not in self._sent),
            key=lambda item: (-item[1].severity.rank, item[1].number),
        )[: max(0, BURST - len(self._recent))]
        for key, _ in ready:
            del self._waiting[key]
            self._sent[key] = now
            self._recent.append(now)
        return [due for _, due in ready]


# --- Notifications: the terminal's bell and title, a program, a webhook. Off unless configured ---
#
# Nothing here holds the monitor up: programs and webhooks run in a thread of their own, behind a bounded queue.

WAITING = 32
"""Messages that may wait for a slow program or server; later ones are dropped, and counted."""
COMMAND_S = 10.0
WEBHOOK_S = 5.0
_TITLE = 80
_STUCK = 4
_KINDS = 20
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_PUSH_TITLE, _POP_TITLE = "\x1b[22;2t", "\x1b[23;2t"


class Notifier:
    """Reports what changes from picture to picture, as `config` wants it; never raises.

    `writer` writes to the terminal (bell and title), `report` shows the user one line: each kind of failure once. Both
    are called in the thread that calls `update`, or in the one that sends. Use it from one thread; `close` it at the
    end, which gives the terminal its title back.
    """

    def __init__(
        self,
        config: NotifyConfig,
        writer: Callable[[str], None] | None = None,
        report: Callable[[str], None] | None = None,
    ) -> None:
        self.dropped = 0
        """Messages dropped because the queue was full."""
        self.failures: list[str] = []
        """Failures, each kind once."""
        self._config = config
        self._writer = writer
        self._report = report
        self._notifications = Notifications(config)
        self._queue: queue.Queue[Notification | None] = queue.Queue(WAITING)
        self._worker: threading.Thread | None = None
        self._posts: list[threading.Thread] = []
        self._title = ""
        self._closing = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None

    def update(self, picture: MonitorState) -> None:
        """Compare with the picture before, and report changes."""
        due = self._notifications.take(picture)
        if self._config.title:
            self._show_title(picture)
        if due and self._config.bell:
            self._write("\a")
        if self._config.command or self._config.webhook:
            for note in due:
                self._send(note)

    def close(self, wait_s: float = 1.0) -> None:
        """Ends, once what waits was sent or `wait_s` seconds have passed; a program that still runs is stopped."""
        if self._title:
            self._title = ""
            self._write(_POP_TITLE)
        if self._worker is not None:
            with suppress(queue.Full):
                self._queue.put(None, timeout=wait_s)
            self._worker.join(wait_s)
            self._closing.set()
            if (child := self._child) is not None:
                _end(child)

    def _show_title(self, picture: MonitorState) -> None:
        verdict = picture.snapshot.verdict if picture.snapshot else None
        text = "✓ perfmon" if verdict is None else f"{verdict.severity.label} {verdict.title}"
        if picture.past_s is not None or picture.snapshot is None:
            text = "? perfmon"
        # In tmux, a `#` of a title begins a format.
        text = plain(" ".join(text.replace("#", " ").split()), _TITLE)
        if text != self._title:
            self._write(f"{'' if self._title else _PUSH_TITLE}\x1b]2;{text}\a")
            self._title = text

    def _write(self, text: str) -> None:
        if self._writer is None:
            return
        try:
            self._writer(text)
        except (OSError, ValueError) as error:
            self._fail(f"the terminal cannot be written: {type(error).__name__}")

    def _send(self, note: Notification) -> None:
        if self._worker is None:
            self._worker = threading.Thread(target=self._work, name="perfmon-notify", daemon=True)
            self._worker.start()
        try:
            self._queue.put_nowait(note)
        except queue.Full:
            self.dropped += 1
            self._fail("notifications are dropped: the command or webhook of [notify] is too slow")

    def _work(self) -> None:
        while (note := self._queue.get()) is not None and not self._closing.is_set():
            if self._config.command:
                self._guarded("notify.command", self._run_command, note)
            if self._config.webhook:
                self._guarded("notify.webhook", self._post, note)

    def _guarded(self, what: str, send: Callable[[Notification], str], note: Notification) -> None:
        try:
            failed = send(note)
        except Exception as error:  # a message that cannot be sent must not end those after it
            failed = _reason(error)
        if failed:
            self._fail(f"{what} failed: {failed}")

    def _fail(self, text: str) -> None:
        if text in self.failures or len(self.failures) >= _KINDS:
            return
        self.failures.append(text)
        if self._report is not None:
            with suppress(Exception):
                self._report(text)

    def _run_command(self, note: Notification) -> str:
        words = filled(self._config.command, note.values)
        environment = {f"PERFMON_{name.upper()}": value for name, value in note.values.items()}
        child = self._child = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **environment},
            start_new_session=True,
        )
        if self._closing.is_set():  # `close` came too early to see it
            _end(child)
        try:
            child.communicate(_json(note), timeout=COMMAND_S)
        except subprocess.TimeoutExpired:
            _end(child)
            return f"{plain(words[0], 80)} was stopped after {COMMAND_S:.0f} s"
        finally:
            self._child = None
        return f"{plain(words[0], 80)} exited with {child.returncode}" if child.returncode else ""

    def _post(self, note: Notification) -> str:
        """Sends in a thread: a server that sends a byte now and then resets every timeout but this one."""
        self._posts = [post for post in self._posts if post.is_alive()]
        if len(self._posts) >= _STUCK:
            return f"no answer within {WEBHOOK_S:.0f} s"
        failed: list[str] = []
        body, url = _json(note), self._config.webhook or ""
        post = threading.Thread(target=lambda: failed.append(_posted(url, body)), name="perfmon-webhook", daemon=True)
        post.start()
        post.join(WEBHOOK_S)
        if post.is_alive():
            self._posts.append(post)
            return f"no answer within {WEBHOOK_S:.0f} s"
        return failed[0] if failed else "no answer"


def filled(words: tuple[str, ...], values: Mapping[str, str]) -> list[str]:
    """The arguments of a command, placeholders replaced; none that begins with a value can be taken for an option."""
    made = [_PLACEHOLDER.sub(lambda hit: values.get(hit[1], hit[0]), word) for word in words]
    return [
        f" {new}" if new.startswith("-") and not old.startswith("-") else new
        for old, new in zip(words, made, strict=True)
    ]


def message(note: Notification) -> dict[str, Any]:
    """The document that programs and webhooks receive; chats in the manner of Slack show its `text`."""
    text = note.text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("@", "@\u200b")
    return {"schema": 1, "text": text, **asdict(note)}


def _json(note: Notification) -> bytes:
    return json.dumps(message(note), ensure_ascii=False).encode()


def _posted(url: str, body: bytes) -> str:
    """Post `body`; return the reason of a failure. The URL is a secret that some errors repeat: none is shown as is."""
    import urllib.request
    from urllib.error import HTTPError

    class Nowhere(urllib.request.HTTPRedirectHandler):
        """A redirect would carry the alert to a place that is not configured."""

        def redirect_request(self, *_: object) -> None:
            """Follows none."""

    if not url.lower().startswith(("http://", "https://")):
        return "not an http or https URL"
    request = urllib.request.Request(  # noqa: S310 - the scheme was looked at
        url, data=body, method="POST", headers={"Content-Type": "application/json", "User-Agent": "perfmon"}
    )
    try:
        with urllib.request.build_opener(Nowhere).open(request, timeout=WEBHOOK_S) as answer:
            answer.read(1)
    except HTTPError as error:
        error.close()
        return f"the server answered {error.code}"
    except Exception as error:  # in a thread of its own it would be lost
        return _reason(error)
    return ""


def _reason(error: Exception) -> str:
    """The reason of a failure, without any text that may hold the URL."""
    inner = getattr(error, "reason", error)
    if isinstance(inner, OSError) and inner.errno is not None:
        return os.strerror(inner.errno) if inner.errno > 0 else "the host has no address"
    if isinstance(inner, TimeoutError):
        return f"no answer within {WEBHOOK_S:.0f} s"
    return "the response is not HTTP" if isinstance(inner, HTTPException) else type(inner).__name__


def _end(child: subprocess.Popen[bytes]) -> None:
    """Stops a program and what it started."""
    with suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL)
    with suppress(OSError, ValueError):
        if child.stdin is not None:
            child.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        child.wait(1.0)
