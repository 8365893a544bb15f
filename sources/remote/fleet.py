"""All hosts of a command, in a thread of their own: logins first, then logs and pollers."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import asyncssh

from perfmon.core import ConnectError, plain

from ..http_client import Opener, Url
from ..pollers import PollRequest
from ..shell import RunnerError
from ..thread_queue import ThreadQueue
from .connection import HostError, Login
from .copies import Fetcher, HostCopy, Progress
from .discovery import Discovery, discover, with_metrics, with_names
from .follow import Emit, Finder, HostLogs
from .host import EVERY_S, POLL_S, HealthCheck, Host, RemoteMachine, opener_of
from .model import Address, HostState, RemoteSpec
from .reader import Item

# --- Looks for what runs on several hosts at once: one that hangs, or is lost in between, delays no other ---


@dataclass(frozen=True, slots=True)
class HostDiscovery:
    """The result of discovery on a host."""

    host: str
    what: Discovery | None
    """None where there was no answer."""
    problem: str = ""
    """Reason for the missing answer; one line."""


async def discover_all(hosts: Sequence[Host], grace_s: float) -> list[HostDiscovery]:
    """Discover runs on connected hosts; after the first answer the others have `grace_s` left.

    Raises HostError when none answers.
    """
    tasks = {host: asyncio.create_task(_found(host)) for host in hosts if host.connection is not None}
    await _first(set(tasks.values()))
    left = {task for task in tasks.values() if not task.done()}
    if left:
        await asyncio.wait(left, timeout=grace_s)
    found = [await _outcome(host.address.shown, task, grace_s) for host, task in tasks.items()]
    if found and all(one.what is None for one in found):
        raise HostError(found[0].problem)
    return found


async def _first(left: set[asyncio.Task[Discovery]]) -> None:
    """Until one has answered, or all have failed."""
    while left:
        done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        if any(task.exception() is None for task in done):
            return


async def _outcome(name: str, task: asyncio.Task[Discovery], grace_s: float) -> HostDiscovery:
    if not task.done():
        task.cancel()
        await asyncio.wait({task})
    if task.cancelled():
        return HostDiscovery(
            name, None, f"{name}: process discovery has not finished after {grace_s:.0f} s (hung disk?)"
        )
    error = task.exception()
    return HostDiscovery(name, None, str(error)) if error is not None else HostDiscovery(name, task.result())


async def _found(host: Host) -> Discovery:
    """Discover runs on a host; named logs are resolved, too. Raises HostError."""
    files, connection = host.files, host.connection
    if files is None or connection is None:
        raise HostError(f"{host.address.shown}: not connected")
    try:
        found = await with_metrics(await discover(files), opener_of(connection))
        return await with_names(files, found, host.logs.paths) if host.logs.paths else found
    except RunnerError as error:
        raise HostError(str(error)) from None


# --- Companions of the logs of a host: checks of servers, and pollers ---

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_LOGS_FIRST_S, _COMPANION_LOOK_S = 2.0, 0.1
"""Seconds that pollers wait at most until the existing contents of logs are read, and from one check to the next."""


def checks_of(hosts: Sequence[Host], urls: Sequence[Url]) -> list[tuple[Host, Url]]:
    """Every host checks itself where a URL is about that host; else the first one checks for all."""
    return [(host, url) for url in urls for host in (hosts if url.host in _LOOPBACK else hosts[:1])]


async def check(host: Host, url: Url, emit: Emit) -> None:
    """Check a URL from a host periodically."""
    check_of_health = HealthCheck(url, host.address.shown, emit, host.clock.now)
    while True:
        connection = host.connection  # without one nothing is known
        if connection is not None:
            await check_of_health.ask(opener_of(connection))
        await asyncio.sleep(EVERY_S)


async def poll(host: Host, requests: Sequence[PollRequest], emit: Emit) -> None:
    """Run the pollers of a host, once its logs were read."""
    if not requests:
        return
    from ..pollers import PollScheduler, make_pollers

    began = time.monotonic()
    while not host.logs.caught_up and time.monotonic() - began < _LOGS_FIRST_S:  # noqa: ASYNC110 - there is no event
        await asyncio.sleep(_COMPANION_LOOK_S)
    machine, places = RemoteMachine(host), partial(_places, host)
    pollers = [poller for one in dict.fromkeys(requests) for poller in make_pollers(machine, one, places)]
    await PollScheduler(machine, pollers, emit).run()


def _places(host: Host) -> Mapping[str, str]:
    return {str(PurePosixPath(path).parent): "logs" for path in host.logs.tails}


# --- All hosts of a command, in a thread of their own: prompts come before a screen opens, then logs ---

_T = TypeVar("_T")
PromptCallback = Callable[[str, bool], str | None]
"""Shows a prompt on the terminal and gives the answer (True: echoed); None without a terminal."""
_GRACE_S = 2.0
"""Once a host is connected the others have so long before the screen opens without them."""
FOUND_S = 3.0
"""Time for the other hosts once the first has finished discovery."""
_LOOK_S = 0.1
_LAST_S = 1.0
_Question = tuple[str, bool, "Future[str | None]"]


@dataclass(frozen=True, slots=True)
class FleetOptions:
    """Options for following hosts."""

    history: int | None = None
    """The most bytes of each log that are read of what exists; None: all, 0: none."""
    poll_s: float = POLL_S
    ask: PromptCallback | None = None
    accept_new: bool = False
    config: tuple[str, ...] | None = None
    known_hosts: tuple[str, ...] | None = None
    checks: tuple[Url, ...] = ()
    """URLs that are checked periodically."""
    requests: tuple[PollRequest, ...] = ()
    """Pollers that run on every host."""
    patient: bool = False
    """All hosts are waited for until they are connected or have failed: no screen is to be opened."""
    finder: Finder | None = None
    """Finds out what to follow on a host for which no path was named."""


class Fleet:
    """Hosts that are connected, and followed.

    `open` is called by the thread that owns the terminal: it alone shows prompts. `items` may then be read by any
    loop, once.
    """

    def __init__(self, specs: Sequence[RemoteSpec], options: FleetOptions | None = None) -> None:
        self._options = options or FleetOptions()
        self._queue: ThreadQueue[Item] = ThreadQueue()
        self._questions: queue.SimpleQueue[_Question | None] = queue.SimpleQueue()
        self._login = Login(self._prompt, self._options.accept_new, self._options.config, self._options.known_hosts)
        inspector: dict[Address, dict[str, int]] = {}
        for spec in specs:
            if spec.inspector is not None:
                inspector.setdefault(spec.address, {})[spec.path] = spec.inspector
        self.hosts = [
            self._host(address, paths, inspector.get(address, {})) for address, paths in _by_host(specs).items()
        ]
        self.failures: list[HostError] = []
        """Errors of hosts that could not be reached at first; they are tried again."""
        self._connecting: dict[Host, asyncio.Task[HostError | None]] = {}
        self._requests: dict[str, tuple[PollRequest, ...]] = {}
        self._may_prompt = True
        self._unanswered = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="perfmon-ssh", daemon=True)
        self._running: Future[None] | None = None

    def open(self) -> None:
        """Connect to all hosts. Raises ConnectError when none can be reached."""
        self._thread.start()
        connecting = asyncio.run_coroutine_threadsafe(self._connect_all(), self._loop)
        connecting.add_done_callback(lambda _: self._questions.put(None))
        try:
            self._answer_questions()
            self.failures = [failure for failure in connecting.result() if failure is not None]
        except BaseException:
            connecting.cancel()
            self.close()
            raise
        self._may_prompt = False
        if len(self.failures) == len(self.hosts):
            self.close()
            more = f" (and {len(self.failures) - 1} other hosts)" if len(self.failures) > 1 else ""
            raise ConnectError(f"{self.failures[0]}{more}")

    def add_pollers(self, host: str, requests: Iterable[PollRequest]) -> None:
        """Poll more on a host, by its name, than the others; before `follow`."""
        self._requests[host] = (*self._requests.get(host, ()), *requests)

    def follow(self) -> None:
        """Start to read logs."""
        self._running = asyncio.run_coroutine_threadsafe(self._run_all(), self._loop)
        self._running.add_done_callback(self._stopped)

    def _stopped(self, running: Future[None]) -> None:
        if not running.cancelled():
            self._queue.end(running.exception())

    def items(self) -> AsyncIterator[Item]:
        """Contents of the logs, then what comes; for one event loop of any thread."""
        return self._queue.take()

    @property
    def states(self) -> tuple[HostState, ...]:
        """States of the hosts."""
        return tuple(host.state for host in self.hosts)

    @property
    def pending_hosts(self) -> list[str]:
        """Those that have not answered yet, nor failed."""
        return [host.address.shown for host, task in self._connecting.items() if not task.done()]

    @property
    def caught_up(self) -> bool:
        """All that was there at the start was taken, of those hosts that answer."""
        read = all(host.logs.caught_up or host.connection is None for host in self.hosts)
        return read and self._queue.idle

    @property
    def behind(self) -> int:
        """Bytes that are known to be there and are not read yet."""
        return sum(host.logs.behind for host in self.hosts)

    def discover(self, grace_s: float = FOUND_S) -> list[HostDiscovery]:
        """Discover runs on connected hosts; slow ones are not waited for. Raises ConnectError."""
        return self.call(discover_all(self.hosts, grace_s)).result()

    def fetch(self, folder: Path, progress: Progress) -> tuple[list[HostCopy], list[HostError]]:
        """Copy the logs of all hosts into a folder; (what was copied, why hosts were lost)."""
        copying = self.call(self._fetch(Fetcher(folder, progress)))
        try:
            done = copying.result()
        except BaseException:
            copying.cancel()
            raise
        return [one for one in done if isinstance(one, HostCopy)], [one for one in done if isinstance(one, HostError)]

    def through(self, host: str, work: Callable[[Opener], Coroutine[Any, Any, _T]]) -> _T:
        """The result of what uses streams through the connection to a host, by its name; from any other thread.

        Raises ConnectError where there is no such connection, or it opens no stream, and what `work` raises.
        """
        found = next((one for one in self.hosts if one.address.shown == host), None)
        if found is None or found.connection is None:
            known = ", ".join(one.address.shown for one in self.hosts)
            raise ConnectError(f"{host}: {'not connected' if found else f'none of the hosts that are read ({known})'}")
        try:
            return self.call(work(opener_of(found.connection))).result()
        except asyncssh.Error as error:
            raise ConnectError(f"{host}: {plain(str(error), 160)} (as that host sees it)") from None

    def call(self, work: Coroutine[Any, Any, _T]) -> Future[_T]:
        """Run a coroutine in the thread of the connections."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def finish(self) -> list[Item]:
        """Return what was read and not taken yet, and the last lines that have no end; what comes later is apart."""
        ending = self.call(self._finish())
        try:
            return ending.result(_LAST_S)
        except TimeoutError:
            ending.cancel()
            return []

    def close(self, patience_s: float = 2.0) -> None:
        """End all connections."""
        self._may_prompt = False
        self._queue.end()
        # On a busy machine tasks may outlive the patience there is: the terminal is no place for a message about it.
        self._loop.set_exception_handler(lambda _loop, _context: None)
        if not self._thread.is_alive():
            return
        with suppress(TimeoutError):
            self.call(self._end()).result(patience_s)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(patience_s)
        if not self._thread.is_alive():
            self._loop.close()

    def _host(self, address: Address, paths: list[str], inspector: Mapping[str, int]) -> Host:
        finder = None if paths else self._options.finder
        logs = HostLogs(address.shown, paths, self._options.history, finder, inspector)
        return Host(address, self._login, logs, self._queue.put)

    # --- in the thread --------------------------------------------------------------------------------------------
    async def _connect_all(self) -> list[HostError | None]:
        """Until all are connected or have failed; those that are slow are left to themselves once one exists."""
        self._connecting = {host: asyncio.create_task(self._connect(host)) for host in self.hosts}
        tasks = set(self._connecting.values())
        deadline: float | None = None
        while any(not task.done() for task in tasks):
            now = time.monotonic()
            if (
                deadline is None
                and not self._options.patient
                and any(host.connection is not None for host in self.hosts)
            ):
                deadline = now + _GRACE_S
            if deadline is not None and now >= deadline and not self._unanswered:
                break
            await asyncio.wait(tasks, timeout=_LOOK_S)
        return [task.result() for task in tasks if task.done()]

    async def _connect(self, host: Host) -> HostError | None:
        try:
            await host.connect()
        except HostError as error:
            return error
        return None

    async def _run_all(self) -> None:
        emit, options = self._queue.put, self._options
        companions = [
            asyncio.create_task(check(host, url, emit)) for host, url in checks_of(self.hosts, options.checks)
        ]
        companions += [asyncio.create_task(self._poll(host)) for host in self.hosts]
        async with asyncio.TaskGroup() as tasks:
            for host in self.hosts:
                tasks.create_task(self._run(host))
        for task in companions:
            task.cancel()

    async def _poll(self, host: Host) -> None:
        await self._connecting[host]
        requests = (*self._options.requests, *self._requests.get(host.address.shown, ()))
        await poll(host, requests, self._queue.put)

    async def _run(self, host: Host) -> None:
        failure = await self._connecting[host]
        if failure is not None:
            await host.lost(failure)
        await host.run(self._options.poll_s)

    async def _finish(self) -> list[Item]:
        return [*self._queue.drain(), *(item for host in self.hosts for item in host.logs.finish())]

    async def _end(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_LAST_S)
        await asyncio.gather(*(host.close() for host in self.hosts))

    async def _fetch(self, fetcher: Fetcher) -> list[HostCopy | HostError]:
        return await asyncio.gather(*(self._fetch_one(fetcher, host) for host in self.hosts))

    async def _fetch_one(self, fetcher: Fetcher, host: Host) -> HostCopy | HostError:
        failure = await self._connecting[host]
        if failure is not None:
            return failure
        try:
            return await fetcher.fetch(host, host.logs.paths)
        except HostError as error:
            return error

    # --- questions ------------------------------------------------------------------------------------------------
    async def _prompt(self, prompt: str, echo: bool) -> str | None:
        if self._options.ask is None or not self._may_prompt:
            return None
        answer: Future[str | None] = Future()
        self._unanswered += 1
        self._questions.put((prompt, echo, answer))
        try:
            return await asyncio.wrap_future(answer)
        finally:
            self._unanswered -= 1

    def _answer_questions(self) -> None:
        """Prompt for one question after another until all hosts are connected or have failed."""
        while (question := self._questions.get()) is not None:
            prompt, echo, answer = question
            assert self._options.ask is not None  # noqa: S101 - else there are no questions
            answer.set_result(self._options.ask(prompt, echo))


def _by_host(specs: Sequence[RemoteSpec]) -> dict[Address, list[str]]:
    found: dict[Address, list[str]] = {}
    for spec in specs:
        paths = found.setdefault(spec.address, [])
        if spec.path and spec.path not in paths:
            paths.append(spec.path)
    return found
