"""Formats that are learned from logs of the user, and where they are kept."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from perfmon.core import ESCAPES, InputError, Notice, UsageError, user_folder

if TYPE_CHECKING:
    from perfmon.sources.formats import Pack, Proposal

_MOST_BYTES = 1 << 26
_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


def format_name(log: str, chosen: str = "") -> str:
    """Return the name of the format of a log: as chosen, else like the log. UsageError for an invalid name."""
    name = chosen or re.sub(r"[^a-z0-9]+", "-", Path(log).name.split(".")[0].lower()).strip("-")[:64] or "learned"
    if _ID.fullmatch(name) is None:
        raise UsageError(f"{name}: expected small letters, digits and - in a format name")
    return name


def learn(log: str, name: str, packs: Sequence[Pack], everything: bool = False) -> Proposal:
    """Proposes the format `name` from the first 64 MB of the log that a SOURCE names; `packs` are those there are.

    With `everything` it reads lines that these read, too. Raises InputError, in one line, where nothing is learned.
    """
    from perfmon.sources.formats import NothingLearnedError, propose
    from perfmon.sources.scan import Scanner

    others = tuple(pack for pack in packs if pack.id != name)
    scanner = Scanner(others)

    def known(line: str) -> bool:
        return not everything and bool(scanner.scan(f"{line}\n".encode()).recognised)

    try:
        return propose(_lines(log), name, others, known)
    except NothingLearnedError as error:
        raise InputError(f"{log}: {error}") from None


def keep(proposal: Proposal, target: Path) -> Path:
    """Writes a format; InputError where that cannot be."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(proposal.toml, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{target}: cannot be written ({error.strerror})") from None
    return target


def installed(name: str, packs: Sequence[Pack]) -> Path:
    """Return the file for a format of that name; UsageError for the name of a built-in one."""
    from perfmon.sources import formats

    built_in = os.path.join(formats.__path__[0], "")
    if any(pack.id == name and pack.file.startswith(built_in) for pack in packs):
        raise UsageError(f"{name}: name of a built-in format, choose another one")
    return user_folder() / "formats" / f"{name}.toml"


def _lines(spec: str) -> Iterator[str]:
    """The lines of one log, of progress bars every frame; InputError for what is no text."""
    from perfmon.sources import discover, read_blocks

    logs = discover([spec])
    if len(logs) != 1:
        raise InputError(f"{spec}: {len(logs)} logs, expected one to learn from")
    size = 0
    for item in read_blocks(logs[0]):
        if isinstance(item, Notice):
            if item.kind == "lost":
                raise InputError(f"{spec}: {item.text}")
            continue
        for line in ESCAPES.sub("", item.data.decode("utf-8", "replace")).split("\n"):
            yield from (frame for frame in line.split("\r") if frame)
        size += len(item.data)
        if size >= _MOST_BYTES:
            return
