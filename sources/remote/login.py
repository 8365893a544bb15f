"""What a login may ask its user for. Answers stay in memory, so that a lost connection can be made again."""

from __future__ import annotations

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
    """(host, prompt) → what was answered."""

    async def answer(self, host: str, prompt: str, echo: bool = False, *, again: bool = False) -> str | None:
        """What was answered before, else (or `again`) what is answered now."""
        key = (host, prompt)
        if again:
            self.answers.pop(key, None)
        if key not in self.answers:
            said = await self.ask(prompt, echo)
            if said is None:
                return None
            self.answers[key] = said
        return self.answers[key]
