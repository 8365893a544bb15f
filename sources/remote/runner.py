"""The seam to a machine, this one or another: a shell there that answers one script after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from perfmon.errors import PerfmonError


class RunnerError(PerfmonError):
    """The shell is gone, or did not answer: every script that waits fails, and none can be run any more."""


class NoAnswerError(RunnerError):
    """The shell did not answer in time."""


@dataclass(frozen=True, slots=True)
class Output:
    """What a script printed."""

    code: int
    """Its exit status."""
    data: bytes
    """Its stdout, byte for byte; stderr is not kept."""

    @property
    def text(self) -> str:
        """As text; what is no UTF-8 survives as surrogates."""
        return self.data.decode("utf-8", "surrogateescape")


class Runner(Protocol):
    """Runs scripts of POSIX sh in one long-lived shell on one machine.

    Scripts are run one after the other, in the order in which they were given; several may be given at once. Variables,
    functions and open descriptors stay; stdin is empty. What the shell's user prints at login is not in any output.
    Not promised: that a script which hangs can be ended. Use one runner for what has to answer and another for what
    may hang.
    """

    @property
    def name(self) -> str:
        """The machine, for display."""

    @property
    def closed(self) -> bool:
        """Nothing can be run any more."""

    async def run(self, script: str, *, timeout_s: float = 20.0) -> Output:
        """Runs a script that a shell can parse, without `exit`. Raises RunnerError."""

    async def close(self) -> None:
        """Ends the shell."""
