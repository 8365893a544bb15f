"""The seams of polling: what is asked, and the machine that it is asked of."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from perfmon.errors import PerfmonError

from ..remote.http import Opener
from ..remote.runner import Runner
from .reading import Reading

Places = Callable[[], Mapping[str, str]]
"""Paths on the machine → what lies there (`logs`, `checkpoints`): their disks matter to the run."""


def nowhere() -> Mapping[str, str]:
    """No path is known."""
    return {}


class PollError(PerfmonError):
    """A poller could not find out what it asks for: one line that says what, where and the mend."""


class AbsentError(PollError):
    """What is asked for is not there (no driver, no such command): it is told once, and asked again rarely."""


class Machine(Protocol):
    """A machine that pollers ask: this one, or one that a connection leads to."""

    @property
    def name(self) -> str:
        """For display; that of this machine is its host name."""

    @property
    def here(self) -> bool:
        """It is this machine: libraries can be asked instead of commands."""

    def now(self) -> datetime:
        """What its clock shows."""

    async def runner(self) -> Runner:
        """A shell of its own for one poller; the poller closes it. Raises PerfmonError where there is none."""

    @property
    def opener(self) -> Opener:
        """Opens streams to ports as seen from there; raises OSError or PerfmonError when used."""

    def lines(self, command: str) -> AsyncIterator[bytes]:
        """What a command of its shell prints until it ends, line by line, without newlines.

        The command is ended when the iterator is closed. Raises PollError where it cannot be run.
        """


class Poller(Protocol):
    """Asks for one kind of thing, again and again.

    It is called from the event loop of the polls: what may block has to go to a thread. It may take long or hang:
    whoever paces it sets a deadline, says how old the last answer is, and asks nothing else of it meanwhile.
    """

    @property
    def name(self) -> str:
        """What is asked, for display: `gpu`, `host`, `vllm http://127.0.0.1:8000`."""

    @property
    def every_s(self) -> float:
        """Seconds from one question to the next."""

    async def poll(self) -> Sequence[Reading]:
        """Asks once. Raises PollError; may be cancelled at any await."""

    async def close(self) -> None:
        """Lets go of everything."""
