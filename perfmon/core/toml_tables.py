"""TOML data files (formats, signatures, thresholds): an error names file, key and what was expected."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

import tomli

from .errors import DataFileError

_WORD = re.compile(r"[A-Za-z0-9][\w.-]{0,63}", re.ASCII)


class Table:
    """A TOML table that knows its file and key, so that each wrong value can be named."""

    def __init__(self, file: str, key: str, data: Mapping[str, Any]) -> None:
        self.file, self.key, self.data = file, key, data

    def wrong(self, name: str, expected: str) -> DataFileError:
        """The error for one key."""
        return DataFileError(self.file, f"{self.key}.{name}".lstrip("."), expected)

    def only(self, allowed: Iterable[str]) -> None:
        """Raise for an unknown key: a typo would otherwise be ignored silently."""
        known = frozenset(allowed)
        for name in self.data:
            if name not in known:
                raise self.wrong(name, f"unknown key, expected one of {', '.join(sorted(known))}")

    def text(self, name: str, default: str | None = None) -> str:
        """A string; required when there is no default."""
        value = self.data.get(name, default)
        if not isinstance(value, str):
            raise self.wrong(name, "expected a string" if name in self.data else "missing, expected a string")
        return value

    def word(self, name: str) -> str:
        """A required name that is a word everywhere: on a command line, in JSON, in a file name."""
        value = self.text(name)
        if not _WORD.fullmatch(value):
            raise self.wrong(name, "expected a word of letters, digits, - and _")
        return value

    def line(self, name: str) -> str:
        """A required line of text."""
        value = self.text(name)
        if not value.strip() or not value.isprintable():
            raise self.wrong(name, "expected a line of text")
        return value

    def number(self, name: str, default: float) -> float:
        """A finite number."""
        value = self.data.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise self.wrong(name, "expected a number")
        return float(value)

    def amount(self, name: str, default: float) -> float:
        """A finite number that is not negative."""
        value = self.number(name, default)
        if value < 0:
            raise self.wrong(name, "expected a number of 0 or more")
        return value

    def required_number(self, name: str) -> float:
        """A finite number that must be there."""
        if name not in self.data:
            raise self.wrong(name, "missing, expected a number")
        return self.number(name, 0.0)

    def flag(self, name: str, default: bool = False) -> bool:
        """A boolean."""
        value = self.data.get(name, default)
        if not isinstance(value, bool):
            raise self.wrong(name, "expected true or false")
        return value

    def texts(self, name: str, required: bool = False) -> tuple[str, ...]:
        """A string or a list of strings."""
        if not required and name not in self.data:  # nearly all
            return ()
        value = self.data.get(name, [])
        if isinstance(value, str):
            value = [value]
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value) or (required and not value):
            raise self.wrong(name, "expected a string or a list of strings")
        return tuple(value)

    def table(self, key: str, data: object) -> Table:
        """A table below this one, `key` being its path from here."""
        if not isinstance(data, dict):
            raise self.wrong(key, "expected a table")
        return Table(self.file, f"{self.key}.{key}".lstrip("."), data)

    def tables(self, name: str) -> list[Table]:
        """A list of tables."""
        value = self.data.get(name, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self.wrong(name, f"expected tables ([[{name}]])")
        return [Table(self.file, f"{self.key}.{name}[{i}]".lstrip("."), item) for i, item in enumerate(value)]

    def numbers(self, name: str) -> dict[str, float]:
        """A table of numbers."""
        value = self.data.get(name, {})
        if not isinstance(value, dict) or not all(isinstance(item, int | float) for item in value.values()):
            raise self.wrong(name, "expected a table of numbers")
        return {key: float(item) for key, item in value.items()}


def read_toml(path: Path) -> Table:
    """The file as a table; a missing, unreadable or malformed file raises DataFileError."""
    try:
        data = tomli.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise DataFileError(str(path), "file", f"cannot be read ({error})") from None
    except (tomli.TOMLDecodeError, RecursionError) as error:
        raise DataFileError(str(path), "file", f"not valid TOML ({error})") from None
    return Table(str(path), "", data)


class _Ranked(Protocol):
    """The content of a file that others can replace."""

    @property
    def id(self) -> str:
        """The name by which a later file replaces it."""

    @property
    def rank(self) -> int:
        """Its place in the order."""


_R = TypeVar("_R", bound=_Ranked)


def with_user_files(builtin: Iterable[_R], folders: Iterable[Path], load: Callable[[Path], _R]) -> tuple[_R, ...]:
    """Built-in data and the `*.toml` of user folders, by rank and id; a later file replaces one of the same id."""
    found = {one.id: one for one in builtin}
    for folder in folders:
        found.update((one.id, one) for one in map(load, sorted(folder.glob("*.toml"))))
    return tuple(sorted(found.values(), key=lambda one: (one.rank, one.id)))
