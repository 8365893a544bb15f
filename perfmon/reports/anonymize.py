"""Reports for strangers: hosts, addresses, paths and users get names like `host-1`."""

from __future__ import annotations

import getpass
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any, TypeVar, cast

# --- Reports that may be shown to strangers: hosts, addresses, paths and users get names like `host-1`, everywhere
# alike ---
#
# A name is found by where it stands (a URL, a login, a home folder, `host=`) or what it looks like (an address, a path,
# a full domain name), and then masked wherever it stands alone. What looks like an ordinary word stays.

_LONGEST = 4000
"""Characters of a text that are kept: more than any report shows of one."""
_PLAIN = frozenset({"localhost", "stdin"})
_COMMON = frozenset({"root", "user", "users", "admin", "ubuntu", "debian", "nobody", "none", "null", "true", "false"})
"""Logins that identify no one, and are words of other sentences too."""

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,62}[A-Za-z0-9])?"
_DOMAIN = rf"{_NAME}(?:\.{_NAME}){{0,8}}"
_URL = re.compile(
    rf"\b([a-z][a-z0-9+.-]{{0,20}}://)(?:([^\s/@:]{{1,64}})(?::[^\s/@]{{0,64}})?@)?({_DOMAIN})?(:\d+)?(/[^\s'\"|<>)\]}}]*)?",
    re.I,
)
_LOGIN = re.compile(rf"(?<![\w.@/-])([A-Za-z_][\w.-]{{0,31}})@({_DOMAIN})")
_HOST_FIELD = re.compile(
    r"\b((?:host|host_?name|node|node_?name|server|master_addr|addr|address)\b['\"]?\s*[=:]\s*['\"]?)" + f"({_DOMAIN})",
    re.I,
)
_USER_FIELD = re.compile(rf"\b((?:user|user_?name|login|owner)\b['\"]?\s*[=:]\s*['\"]?)({_NAME})", re.I)
_HOME = re.compile(r"/(?:home|Users)/([\w.-]{1,32})")
_SYSLOG = re.compile(rf"^([A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d )({_DOMAIN})(?= \S+:)")
_FULL_NAME = re.compile(
    rf"(?<![\w.@/-]){_NAME}(?:\.{_NAME}){{0,8}}\."
    r"(?:com|org|net|edu|gov|io|cloud|local|localdomain|internal|intra|lan|corp|cluster|svc)(?![\w-]|\.\w)",
    re.I,
)
_ADDRESS = re.compile(
    r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?!\w|\.\d)"
    r"|(?<![\w:])(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}(?![\w:])"
    r"|(?<![\w:])(?:[0-9a-f]{1,4}:){1,6}(?::[0-9a-f]{1,4}){1,6}(?![\w:])"
    r"|(?<![\w:])::[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,5}(?![\w:])",
    re.I,
)
_PATH = re.compile(r"(?<![\w/.~-])(?<!:(?=//))(?:~[\w-]*|\.{1,2})?(?:/[^\s/:;,'\"|<>()\[\]{}=]{1,255})+/?")
_RELATIVE = re.compile(
    r"(?<![\w/:.~@-])[A-Za-z_][\w.-]{0,255}(?:(?:/[\w.@+-]{1,255}){2,32}/?|/[\w@+-]{0,250}\.[\w.]{1,8})"
)
_MASK = re.compile(r"(?:host|ip|path|user|device)-\d+")
_OWN_PLACE = re.compile(r"[\d.-]")


class Redactor:
    """The masks of one report. `learn` all its texts first: then a name is known in those before it too."""

    def __init__(self) -> None:
        self._masks: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}
        self._logs: dict[str, str] = {}
        self._words: dict[str, str] = {}
        self._known: re.Pattern[str] | None = None
        own = socket.gethostname()
        for name in {own, own.partition(".")[0]}:
            self._machine(name, everywhere=True)
        self._person(_login())

    def log(self, name: str) -> str:
        """The mask of a log's name, which need not look like a path."""
        if name and name not in _PLAIN:
            mask = self._mask("path", name)
            base = name.rpartition("/")[2]
            for known in (name, base) if "." in base else (name,):
                self._logs.setdefault(known, mask)
            self._known = None
        return self._logs.get(name, name)

    def machine(self, name: str) -> None:
        """Remembers the name of a machine, which need not look like one: `a100-0`, `login`."""
        for known in {name, name.partition(".")[0]}:
            if known and known.lower() not in _COMMON:
                self._machine(known, everywhere=True)

    def device(self, name: str) -> None:
        """Remembers the name by which one single device is known: it is masked wherever it stands."""
        if name:
            self._remember(name, self._mask("device", name))

    def learn(self, text: str) -> None:
        """Remembers the names of machines and people in a text."""
        self.text(text)
        for hit in _HOME.finditer(text[:_LONGEST]):
            self._person(hit[1])

    def text(self, text: str) -> str:
        """`text` with every name masked."""
        text = self._pattern().sub(lambda hit: self._logs.get(hit[0]) or self._words.get(hit[0], ""), text[:_LONGEST])
        text = _URL.sub(self._url, text)
        text = _LOGIN.sub(lambda hit: f"{self._person(hit[1])}@{self._machine(hit[2])}", text)
        for pattern, name in ((_HOST_FIELD, self._machine), (_SYSLOG, self._machine), (_USER_FIELD, self._person)):
            text = pattern.sub(lambda hit, name=name: hit[1] + name(hit[2]), text)  # type: ignore[misc]
        text = _ADDRESS.sub(lambda hit: self._mask("ip", hit[0]), text)
        text = _FULL_NAME.sub(lambda hit: self._machine(hit[0]), text)
        for pattern in (_PATH, _RELATIVE):
            text = pattern.sub(lambda hit: self._mask("path", hit[0].rstrip("/")), text)
        return text

    def _url(self, hit: re.Match[str]) -> str:
        login = f"{self._person(hit[2])}@" if hit[2] else ""
        host = self._machine(hit[3]) if hit[3] else ""
        path = f"/{self._mask('path', hit[5])}" if len(hit[5] or "") > 1 else hit[5] or ""
        return f"{hit[1]}{login}{host}{hit[4] or ''}{path}"

    def _machine(self, name: str, everywhere: bool = False) -> str:
        """A machine; a plain word like `inference` may mean something else, and is masked in its own places only."""
        if name.lower() in _PLAIN or name.isdigit() or _MASK.fullmatch(name):
            return name
        if _ADDRESS.fullmatch(name):
            return self._mask("ip", name)
        mask = self._mask("host", name)
        if everywhere or _OWN_PLACE.search(name):
            self._remember(name, mask)
        return mask

    def _person(self, name: str) -> str:
        if not name or name.lower() in _COMMON or name.isdigit() or _MASK.fullmatch(name):
            return name
        mask = self._mask("user", name)
        self._remember(name, mask)
        return mask

    def _remember(self, name: str, mask: str) -> None:
        if len(name) > 2 and name not in self._words:
            self._words[name] = mask
            self._known = None

    def _mask(self, kind: str, name: str) -> str:
        key = (kind, name)
        if key not in self._masks:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._masks[key] = f"{kind}-{self._counts[kind]}"
        return self._masks[key]

    def _pattern(self) -> re.Pattern[str]:
        if self._known is None:
            logs, words = (
                "|".join(map(re.escape, sorted(names, key=len, reverse=True))) for names in (self._logs, self._words)
            )
            whole = rf"(?<![\w/.-])(?:{logs})(?![\w/-])" if logs else r"(?!)"
            word = rf"(?<![A-Za-z0-9/])(?:{words})(?![A-Za-z0-9/])" if words else r"(?!)"
            self._known = re.compile(f"{whole}|{word}")
        return self._known


def _login() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user that no table lists
        return ""


# --- The same value with every text in it changed: snapshots and pictures without secrets, or with names masked ---

_T = TypeVar("_T")


def map_texts(value: _T, change: Callable[[str], str]) -> _T:
    """A copy of a frozen dataclass, tuple, mapping or string in which `change` has changed every text."""
    made: Any = value
    if isinstance(value, str):
        made = value if isinstance(value, Enum) else change(value)
    elif isinstance(value, tuple):
        made = value if _is_numbers(value) else tuple(map_texts(item, change) for item in value)
    elif isinstance(value, Mapping):
        made = {map_texts(key, change): map_texts(item, change) for key, item in value.items()}
    elif is_dataclass(value) and not isinstance(value, type):
        changed = {field.name: map_texts(getattr(value, field.name), change) for field in fields(value)}
        made = replace(value, **changed)
    return cast(_T, made)


def texts(value: Any) -> list[str]:
    """Every text in such a value, keys included."""
    found: list[str] = []
    map_texts(value, lambda text: found.append(text) or text)  # type: ignore[func-returns-value]
    return found


def _is_numbers(value: tuple[Any, ...]) -> bool:
    """Series hold numbers, or pairs of them, thousands: nothing to look at."""
    first = value[0] if value else 0.0
    return isinstance(first, float | int) or (
        isinstance(first, tuple) and bool(first) and all(isinstance(item, float | int) for item in first)
    )
