"""How alerts may leave the monitor: the `[notify]` table of the configuration, checked."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from .datafile import Table
from .model import Severity
from .units import parse_duration

PLACEHOLDERS = frozenset({"event", "severity", "signature", "title", "sentence", "count", "lost", "number"})
"""What `{…}` in an argument of `notify.command` may name."""
EVENTS = ("firing", "resolved")
_LEADING_OUT = ("command", "webhook")
"""Settings by which data leaves, or programs start: not for whoever may write into the folder that one works in."""
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_WEBHOOK = re.compile(r"https?://(?:\[[0-9a-f:.]+\]|[^\s/@:?#\[\]]+)(?::\d{1,5})?(?:[/?#][!-~]*)?", re.I)
"""Without a login in it: nobody would send one."""


@dataclass(frozen=True, slots=True)
class Outward:
    """How alerts leave the monitor; nothing does unless it is asked for."""

    bell: bool = False
    """Ring the terminal's bell."""
    title: bool = False
    """Keep the title of the terminal, or pane, at the verdict."""
    command: tuple[str, ...] = ()
    """A program and its arguments, with placeholders."""
    webhook: str | None = field(default=None, repr=False)
    """A secret: http or https, never shown."""
    min_severity: Severity = Severity.WARNING
    min_interval_s: float = 60.0
    """Between two notices of one alert; as a whole, few are sent in that time."""
    on: tuple[str, ...] = EVENTS
    """Which of EVENTS are told."""


def read_outward(base: Outward, table: Table, own: bool) -> Outward:
    """What the `[notify]` table says, over `base`; `own` is False for a file that the user neither wrote nor named.

    Raises DataFileError for what is wrong.
    """
    table.only(("bell", "title", "command", "webhook", "min_severity", "min_interval", "on"))
    for name in _LEADING_OUT:
        if name in table.data and not own:
            where = "ignored in the working folder, which others may write to: set it in ~/.config/perfmon/config.toml"
            raise table.wrong(name, where)
    return Outward(
        bell=table.flag("bell", base.bell),
        title=table.flag("title", base.title),
        command=_command(table) if "command" in table.data else base.command,
        webhook=_webhook(table) if "webhook" in table.data else base.webhook,
        min_severity=_severity(table) if "min_severity" in table.data else base.min_severity,
        min_interval_s=_interval(table) if "min_interval" in table.data else base.min_interval_s,
        on=_events(table) if "on" in table.data else base.on,
    )


def _command(table: Table) -> tuple[str, ...]:
    """An empty list turns off what an earlier file asked for."""
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
    """The URL; "" turns off what an earlier file asked for. It is a secret, so no error repeats it."""
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
