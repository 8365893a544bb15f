"""What a server asks while somebody logs in, and who answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import asyncssh

from perfmon.text import plain

from .hostkeys import HostKeys
from .login import Login

_TRIES = 3
_DEFAULT_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")


class Client(asyncssh.SSHClient):
    """Answers for one attempt to connect."""

    def __init__(self, shown: str, login: Login, keys: HostKeys, identities: Sequence[Path]) -> None:
        self.keys = keys
        self.deadline: asyncio.Timeout | None = None
        """By when the host must have answered; people are given the time they need."""
        self._shown, self._login = shown, login
        self._locked: list[Path] | None = None
        self._identities = identities
        self._passwords = self._challenges = 0
        self._password: str | None = None
        self._answered: dict[str, str] = {}
        """What was answered, and not enough, as long as questions go on."""

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        """No key is trusted here: it is remembered, so that its user can be asked."""
        self.keys.offered = key
        return False

    async def public_key_auth_requested(self) -> list[asyncssh.SSHKey] | None:
        """Keys that need a passphrase, once all others were refused."""
        if self._locked is None:
            self._locked = await asyncio.to_thread(_locked, self._identities)
        while self._locked:
            key = await self._unlock(self._locked.pop(0))
            if key is not None:
                return [key]
        return None

    async def _unlock(self, path: Path) -> asyncssh.SSHKey | None:
        """A key that needs a passphrase, which is asked for once for all hosts; three times where it is wrong."""
        passphrase: str | None = None
        for _ in range(_TRIES):
            prompt = f"passphrase of {plain(str(path))} (Enter skips): "
            passphrase = await self._answer(prompt, False, host="", wrong=passphrase)
            if not passphrase:
                return None
            with suppress(OSError, ValueError, asyncssh.Error):
                return await asyncio.to_thread(_unlocked, path, passphrase)
        return None

    async def password_auth_requested(self) -> str | None:
        """Asks for the password, at most three times."""
        self._passwords += 1
        if self._passwords > _TRIES:
            return None
        self._password = await self._answer(f"password of {self._shown}: ", False, wrong=self._password)
        return self._password

    def kbdint_auth_requested(self) -> str | None:
        """Questions are welcome."""
        self._challenges += 1
        return "" if self._challenges <= _TRIES else None

    async def kbdint_challenge_received(
        self, name: str, instructions: str, lang: str, prompts: Sequence[tuple[str, bool]]
    ) -> list[str] | None:
        """Passes on what the server asks."""
        answers = []
        for prompt, echo in prompts:
            asked = f"{self._shown}: {plain(prompt, 200)}"
            answer = await self._answer(asked, echo, wrong=self._answered.get(asked))
            if answer is None:
                return None
            self._answered[asked] = answer
            answers.append(answer)
        return answers

    async def _answer(
        self, prompt: str, echo: bool, *, host: str | None = None, wrong: str | None = None
    ) -> str | None:
        """Asks, while the clock stands."""
        loop, deadline = asyncio.get_running_loop(), self.deadline
        when = deadline.when() if deadline is not None else None
        left = None if when is None else when - loop.time()
        if deadline is not None:
            deadline.reschedule(None)
        try:
            where = self._shown if host is None else host
            return await self._login.answer(where, prompt, echo, wrong=wrong)
        finally:
            if deadline is not None and left is not None:
                deadline.reschedule(loop.time() + max(left, 1.0))


def _locked(identities: Sequence[Path]) -> list[Path]:
    """Those keys, or of the usual ones, that need a passphrase (blocking)."""
    paths = identities or [Path("~/.ssh", name).expanduser() for name in _DEFAULT_KEYS]
    return [path for path in paths if _is_locked(path)]


def _unlocked(path: Path, passphrase: str) -> asyncssh.SSHKey:
    return asyncssh.import_private_key(path.read_bytes(), passphrase)


def _is_locked(path: Path) -> bool:
    try:
        asyncssh.import_private_key(path.read_bytes())
    except asyncssh.KeyImportError as error:
        return str(error).startswith("Passphrase")
    except (OSError, ValueError):
        return False
    return False
