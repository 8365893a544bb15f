"""Configuration: the file of the user, its folders, notifications, times on the command line."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import Any

from .errors import DataFileError, UsageError
from .model import Severity
from .text import parse_duration
from .toml_tables import Table, read_toml

# --- The `[notify]` table: ways for alerts to leave the monitor ---

PLACEHOLDERS = frozenset({"event", "severity", "signature", "title", "sentence", "count", "lost", "number"})
"""Placeholders in arguments of `notify.command`."""
EVENTS = ("firing", "resolved")
_LEADING_OUT = ("command", "webhook")
"""Settings that send data or start programs: not read from the working folder, which others may write to."""
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_WEBHOOK = re.compile(r"https?://(?:\[[0-9a-f:.]+\]|[^\s/@:?#\[\]]+)(?::\d{1,5})?(?:[/?#][!-~]*)?", re.I)
"""Without a login in it."""


@dataclass(frozen=True, slots=True)
class NotifyConfig:
    """The `[notify]` table: ways for alerts to leave the monitor, all off by default."""

    bell: bool = False
    """Ring the terminal's bell."""
    title: bool = False
    """Show the verdict in the title of the terminal, or pane."""
    command: tuple[str, ...] = ()
    """A program and its arguments, with placeholders."""
    webhook: str | None = field(default=None, repr=False)
    """A secret: http or https, never shown."""
    min_severity: Severity = Severity.WARNING
    min_interval_s: float = 60.0
    """Between two notifications of one alert; also limits their total number."""
    on: tuple[str, ...] = EVENTS
    """The EVENTS that are sent."""


def read_notify_config(base: NotifyConfig, table: Table, own: bool) -> NotifyConfig:
    """Read the `[notify]` table over `base`; `own` is False for a file that the user neither wrote nor named.

    Raises DataFileError.
    """
    table.only(("bell", "title", "command", "webhook", "min_severity", "min_interval", "on"))
    for name in _LEADING_OUT:
        if name in table.data and not own:
            where = "ignored in the working folder, which others may write to: set it in ~/.config/perfmon/config.toml"
            raise table.wrong(name, where)
    return NotifyConfig(
        bell=table.flag("bell", base.bell),
        title=table.flag("title", base.title),
        command=_command(table) if "command" in table.data else base.command,
        webhook=_webhook(table) if "webhook" in table.data else base.webhook,
        min_severity=_severity(table) if "min_severity" in table.data else base.min_severity,
        min_interval_s=_interval(table) if "min_interval" in table.data else base.min_interval_s,
        on=_events(table) if "on" in table.data else base.on,
    )


def _command(table: Table) -> tuple[str, ...]:
    """Read a program and arguments; an empty list turns off that of an earlier file."""
    words = table.data["command"]
    if not isinstance(words, list) or not all(isinstance(word, str) and "\0" not in word for word in words):
        raise table.wrong("command", 'expected a list of strings: a program and its arguments, like ["notify-send", …]')
    for name in (name for word in words for name in _PLACEHOLDER.findall(word)):
        if name not in PLACEHOLDERS:
            known = ", ".join(f"{{{known}}}" for known in sorted(PLACEHOLDERS))
            raise table.wrong("command", f"unknown placeholder {{{name}}}, expected one of {known}")
    if words and (not words[0].strip() or _PLACEHOLDER.search(words[0])):
        raise table.wrong("command", "expected the name of a program first, without placeholders")
    return tuple(words)


def _webhook(table: Table) -> str | None:
    """Read the URL; "" turns off that of an earlier file. It is a secret, so no error repeats it."""
    url = table.text("webhook")
    if url and not _WEBHOOK.fullmatch(url):
        raise table.wrong("webhook", "expected an http:// or https:// URL with a host and no spaces (it is not shown)")
    return url or None


def _severity(table: Table) -> Severity:
    try:
        return Severity(table.text("min_severity"))
    except ValueError:
        raise table.wrong("min_severity", f"expected one of {', '.join(Severity)}") from None


def _interval(table: Table) -> float:
    value = table.data["min_interval"]
    try:
        seconds = parse_duration(value) if isinstance(value, str) else table.number("min_interval", 0.0)
    except ValueError:
        seconds = -1.0
    if not 0.0 <= seconds <= 86400.0:
        raise table.wrong("min_interval", 'expected a time from "0s" to "1d", like "60s"')
    return seconds


def _events(table: Table) -> tuple[str, ...]:
    events = table.texts("on")
    if any(event not in EVENTS for event in events):
        raise table.wrong("on", f"expected a list of {', '.join(EVENTS)}")
    return events


# --- Configuration files, and the folders of formats, signatures, thresholds and themes next to them ---
#
# Read in this order, later ones override single values and add to lists of files: `~/.config/perfmon` (or
# `$XDG_CONFIG_HOME/perfmon`), `./perfmon.toml`, `$PERFMON_CONFIG`, `--config`. The last two name a file, or a folder
# laid out like `~/.config/perfmon`: `config.toml`, `formats/`, `signatures/`, `bands/`, `themes/`. What starts programs
# or sends data is not taken from `./perfmon.toml`, into which others may have written.

BUILTIN, AUTO = "built-in", "auto"
"""Origins of thresholds."""


@dataclass(frozen=True, slots=True)
class Detail:
    """Size of the parts of a diagnosis that only files show, and that take a while."""

    rows: int = 5000
    """Most rows of its timeline."""
    points: int = 2000
    """Most points of each metric's series."""


WHOLE, WATCHED, FIGURES = Detail(), Detail(0), Detail(0, 0)
"""Everything; for screens and pages; for verdicts and statistics only."""


@dataclass(frozen=True, slots=True)
class Config:
    """Settings that hold for every command."""

    format_dirs: tuple[Path, ...] = ()
    """Folders of format packs that join the built-in ones; a later id replaces an earlier one."""
    signature_dirs: tuple[Path, ...] = ()
    """Folders of signatures, in the same way."""
    band_files: tuple[Path, ...] = ()
    """Tables of thresholds, in the same way."""
    theme_dirs: tuple[Path, ...] = ()
    """Folders of themes, in the same way."""
    theme: str | None = None
    """Name of the theme of the screen; None: by the background of the terminal."""
    criteria: Path | None = None
    """Criteria of `perfmon compare` for the run after the fix; None: the built-in ones."""
    baseline: str = BUILTIN
    """AUTO: thresholds are learned from the healthy start of a run."""
    async_level: int | None = None
    """Intended off-policy steps; None: learned from the run."""
    memory_mb: int | None = None
    """Memory of the store of a run in MB; older samples are thinned beyond it. None: 256 for complete logs, and little
    for a monitor that stays open for days."""
    gpu_price: float | None = None
    """Price of a GPU hour, in a currency of the user's: reports show the cost of lost time."""
    jobs: int | None = None
    """Processes that read logs; None: one per core."""
    notify: NotifyConfig = field(default_factory=NotifyConfig)
    """Settings of the notifications about alerts."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Keys of the screen that the user chose: names of keys, with commas between them, by action."""


_INTEGERS = {"async_level": 0, "memory_mb": 16, "jobs": 1}
"""Integers, with their least values."""
_FOLDERS = ("format_dirs", "signature_dirs", "theme_dirs")
_FILES = ("band_files",)
_KNOWN = (*_INTEGERS, *_FOLDERS, *_FILES, "gpu_price", "criteria", "baseline", "theme", "notify", "keys")
_HERE = Path("perfmon.toml")


def _integer(table: Table, name: str) -> int:
    value, least = table.data[name], _INTEGERS[name]
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise table.wrong(name, f"expected an integer of at least {least}")
    return value


def _name(table: Table, name: str) -> str:
    text = table.text(name)
    if not text.strip():
        raise table.wrong(name, "expected a name")
    return text


def _paths(table: Table, name: str) -> tuple[Path, ...]:
    """Paths as given, relative ones from the folder of the file that names them."""
    paths = tuple(Path(table.file).parent / Path(text).expanduser() for text in table.texts(name))
    for path in paths:
        if name in _FOLDERS and not path.is_dir():
            raise table.wrong(name, f"expected folders, but {path} is not one")
        if name in _FILES and not path.is_file():
            raise table.wrong(name, f"expected files, but {path} is not one")
    return paths


def _value(table: Table, name: str, config: Config) -> object:
    """Read one setting of a file, over `config`."""
    if name in _INTEGERS:
        return _integer(table, name)
    if name in (*_FOLDERS, *_FILES):
        return getattr(config, name) + _paths(table, name)
    if name == "gpu_price":
        return table.amount(name, 0.0)
    if name == "criteria":
        return Path(table.file).parent / Path(table.text(name)).expanduser()
    if name == "notify":
        return read_notify_config(config.notify, table.table(name, table.data[name]), own=Path(table.file) != _HERE)
    if name == "keys":
        chosen = table.table(name, table.data[name])
        return {**config.keys, **{action: _name(chosen, action) for action in chosen.data}}
    if name == "baseline" and table.data[name] not in (BUILTIN, AUTO):
        raise table.wrong(name, f'expected "{AUTO}" or "{BUILTIN}"')
    return _name(table, name)


def _with_file(config: Config, path: Path) -> Config:
    table = read_toml(path)
    table.only(_KNOWN)
    values: dict[str, Any] = {name: _value(table, name, config) for name in table.data}
    return replace(config, **values)


def _with_folder(config: Config, folder: Path) -> Config:
    """The folder's own formats, signatures, bands and themes, then its `config.toml`: a file that is named wins."""
    if not os.access(folder, os.R_OK | os.X_OK):
        raise DataFileError(str(folder), "folder", "cannot be read: make it readable, or change XDG_CONFIG_HOME")
    formats, signatures, themes = folder / "formats", folder / "signatures", folder / "themes"
    config = replace(
        config,
        format_dirs=config.format_dirs + ((formats,) if formats.is_dir() else ()),
        signature_dirs=config.signature_dirs + ((signatures,) if signatures.is_dir() else ()),
        theme_dirs=config.theme_dirs + ((themes,) if themes.is_dir() else ()),
        band_files=config.band_files + tuple(sorted((folder / "bands").glob("*.toml"))),
    )
    file = folder / "config.toml"
    return _with_file(config, file) if file.exists() else config


def user_folder() -> Path:
    """Folder of the user's own configuration, formats, signatures and thresholds; it may not exist."""
    home = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(home) if os.path.isabs(home) else Path("~/.config").expanduser()) / "perfmon"


def _places(explicit: Path | None) -> list[Path]:
    optional = [path for path in (user_folder(), _HERE) if os.path.exists(path)]  # False where none may look
    named = [Path(value).expanduser() for value in (os.environ.get("PERFMON_CONFIG"),) if value]
    return optional + named + ([explicit] if explicit else [])


def load_config(explicit: Path | None = None) -> Config:
    """The settings of all places; a wrong one raises DataFileError naming file, key and what was expected."""
    config = Config()
    for place in _places(explicit):
        config = _with_folder(config, place) if place.is_dir() else _with_file(config, place)
    return config


# --- Times on the command line: `10m` before the end, a date, a time of day, seconds from the start ---

_DAY = 86400.0
YEARLESS_S = 10 * 366 * _DAY
"""Axes that begin below this have no year: they count from a midnight or a New Year."""
_LEAP_YEAR = 2000
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d(?:\.\d+)?))?$")
_UNIT = re.compile(r"[a-z]\s*$", re.IGNORECASE)
_AGO = re.compile(r"(?<=[a-z])\s+ago$", re.IGNORECASE)
"""`10m ago` is `10m`."""
_BARE = re.compile(r"\d+(?:\.\d+)?$")


def moment(text: str, start: float, end: float) -> float:
    """The moment on the axis of a run that goes from `start` to `end` (seconds).

    `30m`, `1h 5m`, `10m ago`: before the end; `120`: seconds from the start; `14:00:30`: that time of day, the first
    one at or after the start's day began; ISO 8601. UsageError for anything else.
    """
    text = _AGO.sub("", text.strip())
    if _BARE.match(text):
        return start + float(text)
    if not _UNIT.search(text) and "-" not in text and ":" not in text:
        raise _no_time(text)
    clock = _CLOCK.match(text)
    if clock:
        return _of_day(int(clock[1]) * 3600 + int(clock[2]) * 60 + float(clock[3] or 0), start, end)
    if ":" in text:
        return _dated(text, start, end)  # never a duration: `25:99` would be one
    try:
        duration = parse_duration(text)
    except (ValueError, OverflowError):
        return _dated(text, start, end)
    if not 0.0 <= duration < inf:
        raise UsageError(f"{text!r} is not a duration before the end: expected a positive value, as in 10m")
    return end - duration


def _no_time(text: str) -> UsageError:
    expected = "expected 10m (before the end), 14:00:30, 2026-08-21T14:00 or seconds from the start"
    return UsageError(f"{text!r} is not a valid time: {expected}")


def _of_day(seconds: float, start: float, end: float) -> float:
    at = start - start % _DAY + seconds
    return at if at >= start - _DAY / 2 or at + _DAY > end else at + _DAY


def _dated(text: str, start: float, end: float) -> float:
    """A date; in a run whose lines have no year the day of its year, and in one without any date its time of day."""
    try:
        when = datetime.fromisoformat(text)
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        if start >= YEARLESS_S:
            return when.timestamp()
    except (ValueError, OverflowError):
        raise _no_time(text) from None
    in_year = (when.replace(year=_LEAP_YEAR) - datetime(_LEAP_YEAR, 1, 1, tzinfo=when.tzinfo)).total_seconds()
    if start - _DAY <= in_year <= end + _DAY:
        return in_year
    return _of_day(in_year % _DAY, start, end)
