"""What a login may ask its user for. Answers stay in memory, so that a lost connection can be made again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

Ask = Callable[[str, bool], Awaitable[str | None]]
"""Shows a prompt and gives the answer (True: echoed); None where nobody can be asked, or nobody answered."""


async def nobody(_prompt: str, _echo: bool) -> str | None:
    """There is no terminal, or the screen is open."""
    return None


@dataclass(slots=True)
class Login:
    """How this user may log in; shared by all hosts of a command."""

    ask: Ask = nobody
    accept_new: bool = False
    """Keys of hosts that were never seen are believed, and remembered."""
    config: tuple[str, ...] | None = None
    """Configuration files of ssh; None: `~/.ssh/config`."""
    known_hosts: tuple[str, ...] | None = None
    """Files of host keys, the first of which learns new ones; None: as the configuration says."""
    answers: dict[tuple[str, str], str] = field(default_factory=dict, repr=False)
    """(host, or "" for all of them; prompt) → what was answered."""

    _asking: dict[tuple[str, str], asyncio.Lock] = field(default_factory=dict, repr=False)

    async def answer(self, host: str, prompt: str, echo: bool = False, *, wrong: str | None = None) -> str | None:
        """What was answered before, unless that was `wrong`; else what is answered now, once for all who wait."""
        key = (host, prompt)
        async with self._asking.setdefault(key, asyncio.Lock()):
            if wrong is not None and self.answers.get(key) == wrong:
                del self.answers[key]
            if key not in self.answers:
                said = await self.ask(prompt, echo)
                if said is None:
                    return None
                self.answers[key] = said
            return self.answers[key]
