"""Runs a command of the user's periodically, and reads the numbers that it prints."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from math import isfinite

from perfmon.core import evidence_text, plain

from ..shell import quoted
from .reading import Area, Machine, PollError, Reading

EVERY_S = 5.0
DEADLINE_S = 20.0
"""A command that has not ended by then is ended."""
MOST_VALUES, MOST_BYTES, MOST_LINES = 100, 1 << 16, 1000
_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
_ALONE = re.compile(rf"\s*({_NUMBER})\s*%?\s*")
_PAIR = re.compile(rf"(?<![\w.:/-])([A-Za-z_][\w.:/-]{{0,60}})\s?[=:]\s?({_NUMBER})(?![\w.]|:\d)")
_SIGN = re.compile(r"[^\w.:/-]+")


class CommandPoller:
    """Runs one command."""

    every_s = EVERY_S

    def __init__(self, machine: Machine, command: str, deadline_s: float = DEADLINE_S) -> None:
        self._machine, self._command, self._deadline_s = machine, command, deadline_s
        self._end = secrets.token_hex(8)
        """Begins the line with the exit status: the command cannot know it."""

    @property
    def name(self) -> str:
        """The command, without what is secret in it."""
        return f"command {self._shown}"

    @property
    def _shown(self) -> str:
        return evidence_text(self._command, 60)

    async def poll(self) -> Sequence[Reading]:
        """Run it once. Raises PollError when it fails, hangs or prints no number."""
        lines, code = await self._run()
        numbers = list(numbers_in(lines, self._label))[:MOST_VALUES]
        if code:
            raise self._error(f"ended with status {code}", lines)
        if not numbers:
            raise self._error("printed neither a number nor key=value", lines)
        return [Reading(Area.VALUE, name, {"value": value}) for name, value in numbers]

    async def close(self) -> None:
        """Nothing is kept open."""

    @property
    def _label(self) -> str:
        """Name of a number that has none: the command's first words."""
        return _SIGN.sub("_", self._shown).strip("_")[:40] or "command"

    async def _run(self) -> tuple[list[str], int]:
        """Lines and exit status. What is left of it at the deadline is ended, here and where it runs."""
        lines: list[str] = []
        size = 0
        try:
            async with asyncio.timeout(self._deadline_s):
                async with aclosing(self._machine.lines(self._script())) as printed:  # type: ignore[type-var]
                    async for line in printed:
                        text = line.decode("utf-8", "replace")
                        if text.startswith(self._end):
                            return lines, int(text.split()[-1])
                        size += len(line)
                        if size > MOST_BYTES or len(lines) >= MOST_LINES:
                            raise self._error(f"printed more than {MOST_BYTES >> 10} KiB or {MOST_LINES} lines", [])
                        lines.append(text)
        except TimeoutError:
            raise self._error(f"timed out after {self._deadline_s:g} s", []) from None
        raise self._error("was ended", lines)

    def _script(self) -> str:
        """It has no stdin. On another host `timeout` ends it even where the connection is lost."""
        run = f"sh -c {quoted(self._command)} </dev/null"
        if not self._machine.here:
            limit = int(self._deadline_s) + 1
            run = f"if command -v timeout >/dev/null 2>&1; then timeout -k 2 {limit} {run}; else {run}; fi"
        return f"{run}; printf '\\n{self._end} %s\\n' \"$?\""

    def _error(self, why: str, lines: Sequence[str]) -> PollError:
        last = next((text for line in reversed(lines) if (text := evidence_text(line, 80).strip())), "")
        return PollError(f"command '{self._shown}' {why}" + (f": {last}" if last else ""))


def numbers_in(lines: Sequence[str], label: str) -> Iterator[tuple[str, float]]:
    """Name and number of all that lines contain: `key=value`, `key: value`, or a number alone, which is `label`."""
    names: set[str] = set()
    for line in lines:
        text = plain(line, 1000)
        alone = _ALONE.fullmatch(text)
        pairs = [(label, alone[1])] if alone else _PAIR.findall(text)
        for name, number in pairs:
            if name not in names and isfinite(float(number)):
                names.add(name)
                yield name, float(number)
