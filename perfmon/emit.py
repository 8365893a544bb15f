"""Logs what a run does, in lines that perfmon reads: the only file that is meant to be copied.

It needs nothing but Python 3.9 or newer and knows nothing of perfmon, so `from perfmon import emit` and a copy of this
file next to a trainer are the same. Its lines:

    [weights][5f0c2e9ab1d4] client.send url=http://10.0.0.5:8000 path=/models/run/step_42 t=1234.567890
    [weights][5f0c2e9ab1d4] server.recv path=/update_weights t=1234.567901
    [weights][5f0c2e9ab1d4] rpc.start op=update_weights t=1234.568012
    [weights][5f0c2e9ab1d4] rpc.done op=update_weights t=1235.823456 rpc_ms=1255.4
    [weights][5f0c2e9ab1d4] client.done wall_ms=1255.6 rpc_ms=1255.4 queue_ms=0.2
    [ckpt] write.done step=42 write_ms=823.4
    [ckpt] wait.start target_step=42
    [ckpt] wait.done target_step=42 wait_ms=12.3
    [gen] batch.start inflight=96 target_batch=64
    [gen] batch.done completions=64 dur_ms=2345.6 inflight=96
    [rollout] trunc_pct=2.3 current_step=10 ckpt_step=9 staleness=1
    rollouts utilization: 12.5% (25 items) empty=40.0% produced=120 consumed=118 put_wait=0.0% get_wait=62.5%

Lines go to the logger `perfmon.emit`, at level INFO, or as `configure` defines. Times are of the monotonic clock.
Errors here never reach the training: nothing raises, a value that cannot be formatted is left out, a line that cannot
be written is counted (`lost`). Everything may be used from any thread, task or forked process. Timers work with `with`
and with `async with`, one block of code at a time for each object; an exception inside it passes through, and the line
that ends the block names it (`error=ReadTimeout`).
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from contextlib import AbstractContextManager, suppress
from contextvars import ContextVar
from json.encoder import encode_basestring_ascii as _quoted
from operator import index
from types import TracebackType
from typing import Any, NamedTuple, TypeVar
from weakref import WeakSet

__all__ = [
    "RPC_HEADER",
    "TRACE_HEADER",
    "FirstByteMiddleware",
    "QueueMonitor",
    "checkpoint_wait",
    "checkpoint_write",
    "configure",
    "generation_batch",
    "lost",
    "new_trace",
    "read_trace",
    "reload_weights",
    "rollout",
    "rpc",
    "to_file",
    "trace_headers",
    "weights_update",
]

TRACE_HEADER = "x-perfmon-trace"
"""Header of a request: the trace id, from the client to the server."""
RPC_HEADER = "x-perfmon-rpc-ms"
"""Header of an answer: how long the RPC took, from the server to the client."""

_LOG = logging.getLogger("perfmon.emit")
_TRACE = re.compile(r"[\w.:/-]{1,128}", re.ASCII)
_NO_TRACE = re.compile(r"[^\w.:/-]+", re.ASCII)
_UNSAFE = re.compile(r"[\s,;|\[\]{}\"'\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]+")
_LOGIN = re.compile(r"(^|//)(?:[^/?#]*|[^/?#:@]*:(?!//|\d{1,5}(?:[/?#]|$))\S*)@")  # a password may hold a slash
_LONGEST = 200
_WARN_EVERY = 10
_LOOK_EVERY_S = 0.1

Sink = Callable[[str], object]
_Form = Callable[[Any], str]
_Field = tuple[str, _Form, object]
_Shown = tuple[str, _Form, str]


# --- where lines go ---------------------------------------------------------------------------------------------------
class _Output(NamedTuple):
    """Destination of lines; replaced as a whole, so that no thread sees half of a change."""

    info: Sink
    warn: Sink
    json: bool
    logged: bool


class _State:
    """Settings of `configure`, number of lost lines, and number of forks that led to this process."""

    output = _Output(_LOG.info, _LOG.warning, False, True)
    lost = 0
    forks = 0


def configure(sink: Sink | None = None, warn: Sink | None = None, json_lines: bool = False) -> None:
    """Set the destination of lines: `sink` (`logger.info` of loguru or structlog, `print`), or `logging` for None.

    `warn` takes the warnings of queue monitors; without it they go where all lines go. With `json_lines` each line is
    a JSON object: `ts` (seconds since 1970), `msg` (the line as text), and its parts `area`, `event`, `trace` and
    fields. What is handed to the sink must then stand alone on its line (see `to_file`).
    """
    if sink is None:
        _State.output = _Output(_LOG.info, warn or _LOG.warning, json_lines, True)
    else:
        _State.output = _Output(sink, warn or sink, json_lines, False)


def lost() -> int:
    """Number of lines that this process could not write: the sink raised, or the disk of `to_file` was full.

    Errors of handlers of `logging` are not counted: they print them to stderr themselves.
    """
    return _State.lost


def to_file(path: str | os.PathLike[str]) -> Sink:
    """A sink that appends to a file; several processes may write the same one.

    A file that cannot be opened is a warning in the log; its lines are counted as lost.
    """
    return _File(path)


class _File:
    """Appends each line with one write, so that the lines of several processes do not mix."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path
        self._file: int | None = None
        self._known: object = None
        self._torn = False
        try:
            self._open()
        except Exception as error:
            with suppress(Exception):  # a handler may raise
                _LOG.warning("%r cannot be written: %s (lines are lost until it can)", path, error)

    def __call__(self, text: str) -> None:
        data = f"{text}\n".encode("utf-8", "replace")
        if self._torn:  # the disk was full in the middle of a line: do not glue this one to it
            data = b"\n" + data
        written = os.write(self._open(), data)
        self._torn = written < len(data)
        if self._torn:
            raise OSError(f"{written} of {len(data)} bytes were written")

    def _open(self) -> int:
        """The file. Where all files were closed, as daemons do, its number may be that of a checkpoint by now."""
        if self._file is None or self._known != _identity(self._file):
            file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            self._file, self._known = file, _identity(file)
        return self._file


def _identity(file: int) -> object:
    try:
        found = os.fstat(file)
    except OSError:
        return None
    return found.st_dev, found.st_ino


# --- formatting values ------------------------------------------------------------------------------------------------
def _figure(value: Any) -> str:
    return f"{float(value):.1f}"


def _moment(value: float) -> str:
    return f"{value:.6f}"


def _count(value: Any) -> str:
    try:
        return str(index(value) + 0)  # of a bool too, whose index is a bool on Python 3.9
    except TypeError:
        number = float(value)
        return str(int(number)) if number.is_integer() else str(number)


def _word(value: Any) -> str:
    """One word of a line: what would end it, open another record or forge a line becomes `_`."""
    return _UNSAFE.sub("_", str(value)[:_LONGEST])


def _address(value: Any) -> str:
    """A URL without what may be secret: login and query."""
    text = str(value)
    if "@" in text or "?" in text or "#" in text:
        text = _LOGIN.sub(r"\1", text).partition("?")[0].partition("#")[0]
    return _word(text)


def _place(value: Any) -> str:
    """Location of weights: a path, or a URL, which may be signed."""
    text = str(value)
    return _address(text) if "://" in text else _word(text)


_WORDS = frozenset((_word, _address, _place))
"""Forms whose text is no number."""


def _text(form: _Form, value: object) -> str | None:
    try:
        return form(value)
    except Exception:
        return None


def _emit(area: str, event: str, fields: Iterable[_Field], trace: str | None = None) -> None:
    """Write one line; values that are None or cannot be formatted are left out."""
    try:
        output = _State.output
        if output.logged and not _LOG.isEnabledFor(logging.INFO):
            return
        shown: list[_Shown] = []
        text = f"[{area}][{trace}]" if trace else f"[{area}]"
        if event:
            text = f"{text} {event}"
        for name, form, value in fields:
            if value is None:
                continue
            try:
                known = form(value)
            except Exception:  # noqa: S112 - a value of any type may come here, and raise whatever it likes
                continue
            if known:
                text = f"{text} {name}={known}"
                if output.json:
                    shown.append((name, form, known))
        output.info(_as_json(text, area, event, trace, shown) if output.json else text)
    except Exception:  # whatever the sink raises
        _State.lost += 1


def _as_json(text: str, area: str, event: str, trace: str | None, shown: Iterable[_Shown]) -> str:
    line = f'{{"ts": {time.time():.6f}, "msg": {_quoted(text)}, "area": "{area}"'
    if event:
        line = f'{line}, "event": "{event}"'
    if trace:
        line = f'{line}, "trace": "{trace}"'
    for name, form, known in shown:
        if form in _WORDS:
            known = _quoted(known)  # noqa: PLW2901
        elif not known[-1].isdigit():  # nan, inf
            known = "null"  # noqa: PLW2901
        line = f'{line}, "{name}": {known}'
    return line + "}"


# --- traces -----------------------------------------------------------------------------------------------------------
def new_trace() -> str:
    """A new trace id, 12 characters: the kernel's chance, so no two processes or forks make the same one."""
    return os.urandom(6).hex()


def _trace_of(given: object) -> str | None:
    return None if given is None else _text(_trace, given)


def _trace(value: Any) -> str:
    return _NO_TRACE.sub("_", str(value)[:128])


def trace_headers(trace: str) -> dict[str, str]:
    """The header that hands a trace id to the server."""
    return {TRACE_HEADER: trace}


def read_trace(source: object) -> str | None:
    """The trace id that a request carries, None where it carries none or something that is no id.

    `source` is an ASGI scope, headers (a mapping or pairs of name and value) or anything that has `headers`.
    """
    try:
        trace = _header(source, TRACE_HEADER)
        return trace if trace is not None and _TRACE.fullmatch(trace) else None
    except Exception:
        return None


def _header(source: Any, name: str) -> str | None:
    headers = getattr(source, "headers", None)
    if headers is None:
        headers = source.get("headers", source) if isinstance(source, Mapping) else source
    for key, value in headers.items() if hasattr(headers, "items") else headers:
        if _latin(key).lower() == name:
            return _latin(value)
    return None


def _latin(text: str | bytes) -> str:
    return text.decode("latin-1") if isinstance(text, bytes) else text


class _Request:
    """Trace of one request that a server handles."""

    __slots__ = ("rpc_ms", "trace")

    def __init__(self, trace: str | None) -> None:
        self.trace = trace
        self.rpc_ms: float | None = None


_request: ContextVar[_Request | None] = ContextVar("perfmon_request", default=None)


# --- timed blocks of code ---------------------------------------------------------------------------------------------
_Self = TypeVar("_Self", bound="_Timed")


class _Timed:
    """A timed block of code, by the monotonic clock; it ends in the process in which it began."""

    _begin = 0.0
    _forks = 0

    def _began(self) -> None:
        """Log the start, if it is logged."""

    def _ended(self, took_ms: float, error: str | None) -> None:
        """Log the end; `error` is the name of the exception that left it."""

    def __enter__(self: _Self) -> _Self:
        self._forks = _State.forks
        self._begin = time.monotonic()
        self._began()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._forks == _State.forks:
            self._ended((time.monotonic() - self._begin) * 1000.0, None if kind is None else kind.__name__)

    async def __aenter__(self: _Self) -> _Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)


class weights_update(_Timed):
    """The client's side of a weight update: from sending the request to having the answer.

    `url` is the server's and `path` that of the weights. The server learns the trace from `headers`, which go with
    the request; hand its answer to `answered`, or set `rpc_ms`, and the time in the queue is logged too. Entered once
    more it is another update, with an id of its own unless one was given.
    """

    _op: str | None = None
    _over = False

    def __init__(self, url: object = None, path: object = None, trace: str | None = None) -> None:
        self._given = _trace_of(trace)
        self.trace: str = self._given or new_trace()
        """The id of this update, in every line about it."""
        self.headers: dict[str, str] = trace_headers(self.trace)
        """Headers of the request."""
        self.rpc_ms: float | None = None
        """Milliseconds that the server's engine took."""
        self._url, self._path = url, path

    def answered(self, answer: object) -> None:
        """Take `rpc_ms` from the server's answer, if it is there: a response's headers, its JSON, or a number."""
        with suppress(Exception):
            if isinstance(answer, Mapping) and "rpc_ms" in answer:
                answer = answer["rpc_ms"]
            value: Any = answer if isinstance(answer, (int, float, str)) else _header(answer, RPC_HEADER)
            self.rpc_ms = float(value)

    def _began(self) -> None:
        if self._over:  # tried again: another update, of which nothing is known yet
            self._over, self.rpc_ms = False, None
            self.trace = self._given or new_trace()
            self.headers = trace_headers(self.trace)
        fields = (("url", _address, self._url), ("path", _place, self._path), ("t", _moment, self._begin))
        _emit("weights", "client.send", (*fields, ("op", _word, self._op)), self.trace)

    def _ended(self, took_ms: float, error: str | None) -> None:
        self._over = True
        rpc_ms = self._rpc()
        queue_ms = None if rpc_ms is None else max(0.0, took_ms - rpc_ms)
        fields = (("wall_ms", _figure, took_ms), ("rpc_ms", _figure, rpc_ms), ("queue_ms", _figure, queue_ms))
        _emit("weights", "client.done", (*fields, ("op", _word, self._op), ("error", _word, error)), self.trace)

    def _rpc(self) -> float | None:
        """Duration of the RPC if it is plausible."""
        try:
            rpc_ms = float(self.rpc_ms)  # type: ignore[arg-type]  # anything may have been set
        except Exception:
            return None
        return rpc_ms if 0.0 <= rpc_ms < math.inf else None


class reload_weights(weights_update):
    """As `weights_update`, for going back to weights that the server has: its lines contain `op=reload_weights`."""

    _op = "reload_weights"


class rpc(_Timed):
    """The server's side of a weight update: the call that makes the engine load the weights.

    The trace is that of the request that `FirstByteMiddleware` handed on, unless one is given (see `read_trace`);
    without either the lines have no trace.
    """

    def __init__(self, op: str = "update_weights", trace: str | None = None) -> None:
        self._op = op
        self._request = _request.get()
        self.trace: str | None = _trace_of(trace) or (self._request.trace if self._request else None)
        """The id of the update, None if there is none."""
        self.rpc_ms: float | None = None
        """Duration in milliseconds, once it has ended."""

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the answer, which report the time to the client; the middleware adds them itself."""
        return {} if self.rpc_ms is None else {RPC_HEADER: _figure(self.rpc_ms)}

    def _began(self) -> None:
        _emit("weights", "rpc.start", (("op", _word, self._op), ("t", _moment, self._begin)), self.trace)

    def _ended(self, took_ms: float, error: str | None) -> None:
        self.rpc_ms = took_ms
        if self._request is not None:
            self._request.rpc_ms = took_ms + (self._request.rpc_ms or 0.0)
        now = self._begin + took_ms / 1000.0
        fields = (("op", _word, self._op), ("t", _moment, now), ("rpc_ms", _figure, took_ms), ("error", _word, error))
        _emit("weights", "rpc.done", fields, self.trace)


class checkpoint_write(_Timed):
    """The trainer writes the checkpoint of a step. A write that fails is logged as `write.failed`, with no duration."""

    def __init__(self, step: object) -> None:
        self._step = step

    def _ended(self, took_ms: float, error: str | None) -> None:
        if error is None:
            _emit("ckpt", "write.done", (("step", _count, self._step), ("write_ms", _figure, took_ms)))
        else:
            fields = (("step", _count, self._step), ("after_ms", _figure, took_ms), ("error", _word, error))
            _emit("ckpt", "write.failed", fields)


class checkpoint_wait(_Timed):
    """The orchestrator waits for the checkpoint of a step."""

    def __init__(self, target_step: object) -> None:
        self._step = target_step

    def _began(self) -> None:
        _emit("ckpt", "wait.start", (("target_step", _count, self._step),))

    def _ended(self, took_ms: float, error: str | None) -> None:
        fields = (("target_step", _count, self._step), ("wait_ms", _figure, took_ms), ("error", _word, error))
        _emit("ckpt", "wait.done", fields)


class generation_batch(_Timed):
    """A batch of generations: `inflight` requests (a number, or a function that counts them) for `target_batch`.

    Set `completions`, and `inflight` if it has changed, before it ends.
    """

    def __init__(self, inflight: object = None, target_batch: object = None) -> None:
        self.inflight: object = inflight
        """Requests under way, or a function that counts them."""
        self.completions: object = None
        """Generations that came out of it."""
        self._target = target_batch

    def _began(self) -> None:
        _emit("gen", "batch.start", (("inflight", _counted, self.inflight), ("target_batch", _count, self._target)))

    def _ended(self, took_ms: float, error: str | None) -> None:
        fields = (("completions", _count, self.completions), ("dur_ms", _figure, took_ms))
        _emit("gen", "batch.done", (*fields, ("inflight", _counted, self.inflight), ("error", _word, error)))


def _counted(value: Any) -> str:
    return _count(value() if callable(value) else value)


def rollout(trunc_pct: object, current_step: object, ckpt_step: object, staleness: object = None) -> None:
    """Log the rollouts of a step: percent that were truncated, and the step of the weights that made them.

    `staleness` is the difference of the steps unless it is given.
    """
    if staleness is None:
        with suppress(Exception):
            staleness = current_step - ckpt_step  # type: ignore[operator]  # steps of any kind of number
    steps = (("current_step", _count, current_step), ("ckpt_step", _count, ckpt_step))
    _emit("rollout", "", (("trunc_pct", _figure, trunc_pct), *steps, ("staleness", _count, staleness)))


# --- servers ----------------------------------------------------------------------------------------------------------
_Scope = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
_Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class FirstByteMiddleware:
    """ASGI middleware that logs `server.recv` when a request for one of `paths` arrives, before the app sees it.

    What passes through is not read, held or changed, but that the answer to a request states how long `rpc` took when
    it had ended before the answer began (`RPC_HEADER`). Other paths, and whatever else a server sends, pass untouched.
    """

    def __init__(
        self,
        app: Callable[[Any, Any, Any], Awaitable[None]],
        paths: str | Iterable[str] = ("/update_weights", "/reload_weights"),
    ) -> None:
        self.app = app
        self.paths = frozenset((paths,) if isinstance(paths, str) else paths)

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        """Handles one connection."""
        path = _path(scope) if scope["type"] in ("http", "websocket") else None
        if path not in self.paths:
            await self.app(scope, receive, send)
            return
        request = _Request(read_trace(scope))
        _emit("weights", "server.recv", (("path", _word, path), ("t", _moment, time.monotonic())), request.trace)
        mark = _request.set(request)
        try:
            await self.app(scope, receive, _with_rpc_header(send, request) if scope["type"] == "http" else send)
        finally:
            with suppress(ValueError):  # a server that gives up closes what it runs from elsewhere
                _request.reset(mark)


def _path(scope: _Scope) -> str:
    """The path below the one that the app is mounted at."""
    path, root = str(scope.get("path")), str(scope.get("root_path") or "")
    return path[len(root) :] if root and path.startswith(root + "/") else path


def _with_rpc_header(send: _Send, request: _Request) -> _Send:
    """`send`, with the header that reports the duration of the RPC."""

    async def sending(message: MutableMapping[str, Any]) -> None:
        if request.rpc_ms is not None and message["type"] == "http.response.start":
            header = (RPC_HEADER.encode(), _figure(request.rpc_ms).encode())
            message = {**message, "headers": [*message.get("headers", ()), header]}
        await send(message)

    return sending


# --- queues -----------------------------------------------------------------------------------------------------------
class _Side:
    """One side of a queue: the calls that put items in, or that take them out, and how long they wait."""

    __slots__ = ("callers", "calls", "count", "counts", "measured", "since", "waited")
    _KEPT_S = 60.0

    def __init__(self, counts: bool) -> None:
        self.count = 0
        self.measured = False
        self.counts = counts
        """False until the first call has ended: of the wait for the first item nothing is counted."""
        self.calls: dict[int, float] = {}
        """By call that has not ended, when it began."""
        self.callers: dict[int, float] = {}
        """By thread, when it last called."""
        self.waited, self.since = 0.0, time.monotonic()

    def begin(self, call: int) -> None:
        now = time.monotonic()
        self.measured = True
        self.calls[call] = self.callers[threading.get_ident()] = now

    def end(self, call: int) -> None:
        now = time.monotonic()
        began = self.calls.pop(call, now)
        if self.counts:
            self.waited += now - max(began, self.since)
        else:
            self.counts, self.since, self.waited = True, now, 0.0

    def share(self) -> float | None:
        """Percent of their time that callers waited since this was last read; None where nothing is measured."""
        if not self.measured or not self.counts:
            return None
        now = time.monotonic()
        self.callers = {
            caller: last
            for caller, last in self.callers.items()
            if now - last < self._KEPT_S or last in self.calls.values()
        }
        if not self.callers and not self.calls:
            return None  # nothing uses this queue at present
        waited = self.waited + sum(now - max(began, self.since) for began in self.calls.values())
        elapsed = (now - self.since) * max(len(self.callers), len(self.calls), 1)
        self.waited, self.since = 0.0, now
        return min(100.0, 100.0 * waited / elapsed) if elapsed > 0 else None


class _Call:
    """One call that may wait, of which one item comes."""

    __slots__ = ("_monitor", "_side")

    def __init__(self, monitor: QueueMonitor, side: _Side) -> None:
        self._monitor, self._side = monitor, side

    def __enter__(self) -> None:
        with suppress(Exception), self._monitor._lock:
            self._side.begin(id(self))

    def __exit__(self, kind: object, *_: object) -> None:
        with suppress(Exception), self._monitor._lock:
            self._side.end(id(self))
            self._side.count += kind is None


class QueueMonitor:
    """Samples a queue every 100 ms in a thread of its own, and logs once a second how full it is.

    `queue` has `qsize()`, or is a function that returns the depth; `capacity` is its `maxsize` unless given; without
    a limit only the depth is logged. A line has means over the samples since the line before, the share of samples
    that found it empty once anything went through it, and what was counted in this process. Below `low` (a share of the
    capacity), once anything went through it, a warning follows the line, at first and at every tenth.

    Wrap the calls that may wait in `putting` and `getting`: they count items, and how long producers wait for room and
    consumers for items is logged, too, as a share of their time. Where only items are to be counted, call `produced`
    and `consumed`.

    Use it with `with`, or call `start` and `stop`. A forked child, or a process that it is sent to, has no thread and
    counts from zero; it may start its own.
    """

    def __init__(
        self,
        queue: Any,
        name: str = "queue",
        capacity: float | None = None,
        every_s: float = _LOOK_EVERY_S,
        looks: int = 10,
        low: float = 0.3,
    ) -> None:
        self.name = _text(_word, name) or "queue"
        self._queue = queue
        self._capacity = capacity
        self._every_s, self._looks, self._low = every_s, looks, low
        self._used = self._copied = False
        self._low_lines = 0
        self._reset()
        _monitors.add(self)

    def __reduce__(self) -> tuple[object, ...]:
        """Copy for a new process: it counts from zero, and has no thread."""
        settings = (self._queue, self.name, self._capacity, self._every_s, self._looks, self._low)
        return type(self), settings, {"_copied": True}

    def _reset(self) -> None:
        """Begins to count; in a forked child a lock may be held by a thread that is not there."""
        self._lock = threading.RLock()  # a signal handler may count too
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._depths: list[float] = []
        self._empty = 0
        self._puts, self._gets = _Side(counts=True), _Side(counts=False)

    def produced(self, count: int = 1) -> None:
        """Counts what was put into the queue."""
        with suppress(Exception), self._lock:
            self._puts.count += int(count)

    def consumed(self, count: int = 1) -> None:
        """Counts what was taken out of the queue."""
        with suppress(Exception), self._lock:
            self._gets.count += int(count)

    def putting(self) -> AbstractContextManager[None]:
        """Around a call that puts one item in: `with monitor.putting(): queue.put(item)`. It may be awaited inside."""
        return _Call(self, self._puts)

    def getting(self) -> AbstractContextManager[None]:
        """Around a call that takes one item out. The wait for the first one of all is not counted."""
        return _Call(self, self._gets)

    def start(self) -> None:
        """Start sampling; a monitor that already samples continues."""
        with suppress(Exception), self._lock:  # there may be no thread to be had
            if self._thread is None:
                self._stopped = threading.Event()  # a thread that did not end in time keeps its own
                thread = threading.Thread(
                    target=self._run, args=(self._stopped,), name=f"perfmon {self.name}", daemon=True
                )
                thread.start()
                self._thread = thread

    def stop(self) -> None:
        """Log the samples since the last line and end the thread."""
        thread, self._thread = self._thread, None
        self._stopped.set()
        with suppress(Exception):  # a sink may stop the monitor that calls it
            if thread is not None:
                thread.join(1.0)

    def __enter__(self) -> QueueMonitor:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def look(self) -> None:
        """Take one sample; after `looks` of them a line is logged."""
        try:
            depth = float(self._queue() if callable(self._queue) else self._queue.qsize())
        except Exception:  # it is not known on this system, or not now
            return
        if math.isfinite(depth):
            self._depths.append(depth)
            self._used = self._used or bool(depth or self._puts.count or self._gets.count)
            self._empty += self._used and depth <= 0
        try:
            if len(self._depths) >= self._looks:
                self._emit()
        except Exception:  # what it was asked for is no number
            self._depths.clear()
            _State.lost += 1

    def _run(self, stopped: threading.Event) -> None:
        try:
            pause_s = self._every_s if self._every_s > 0 else _LOOK_EVERY_S  # never without a pause
            while not stopped.wait(pause_s):
                self.look()
            self._emit()
        except Exception:  # what it was asked for is no time or number
            _State.lost += 1

    def _emit(self) -> None:
        depths, empty = self._depths, self._empty
        self._depths, self._empty = [], 0
        if not depths:
            return
        try:
            depth = sum(depths) / len(depths)
            fill = self._fill(depth)
            self._emit_depth(depth, fill, 100.0 * empty / len(depths))
            if fill is not None and fill < self._low and self._used:
                if self._low_lines % _WARN_EVERY == 0:
                    _emit_text(
                        f"Potential data starvation detected in {self.name}", "starved", {"queue": self.name}, True
                    )
                self._low_lines += 1
            else:
                self._low_lines = 0
        except Exception:
            _State.lost += 1

    def _fill(self, depth: float) -> float | None:
        """The share of the capacity that is in use, None where there is no end to it."""
        try:
            capacity = float(getattr(self._queue, "maxsize", 0) if self._capacity is None else self._capacity)
        except Exception:
            return None
        return depth / capacity if 0 < capacity < math.inf else None

    def _emit_depth(self, depth: float, fill: float | None, empty_pct: float) -> None:
        figures: dict[str, object] = {"queue": self.name, "items": round(depth), "empty_pct": round(empty_pct, 1)}
        text = f"{self.name} depth: {depth:.0f} items"
        if fill is not None:
            figures["fill_pct"] = round(100.0 * fill, 1)
            text = f"{self.name} utilization: {fill:.1%} ({depth:.0f} items)"
        with self._lock:
            produced, consumed, waits = self._puts.count, self._gets.count, (self._puts.share(), self._gets.share())
        figures.update(produced=produced, consumed=consumed)
        text = f"{text} empty={empty_pct:.1f}% produced={produced} consumed={consumed}"
        for name, share in {"put_wait": waits[0], "get_wait": waits[1]}.items():
            if share is not None:
                figures[f"{name}_pct"] = round(share, 1)
                text = f"{text} {name}={share:.1f}%"
        if _State.forks or self._copied:
            figures["pid"] = os.getpid()
            text = f"{text} pid={os.getpid()}"
        _emit_text(text, "depth", figures, False)


def _emit_text(text: str, event: str, figures: Mapping[str, object], warns: bool) -> None:
    """Write a line about a queue."""
    output = _State.output
    if output.json:
        fields = {"ts": round(time.time(), 6), "msg": text, "area": "queue", "event": event, **figures}
        text = json.dumps(fields, allow_nan=False)
    (output.warn if warns else output.info)(text)


_monitors: WeakSet[QueueMonitor] = WeakSet()


def _forked() -> None:
    _State.forks += 1
    for monitor in tuple(_monitors):
        monitor._reset()


if hasattr(os, "register_at_fork"):  # where processes fork
    os.register_at_fork(after_in_child=_forked)
