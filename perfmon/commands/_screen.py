"""Shared parts of the commands that open the screen: options, and opening it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from perfmon.core import ExitCode, UsageError

from ._options import add_window_argument, raise_failure, warn

if TYPE_CHECKING:
    from perfmon.core import Config
    from perfmon.monitor import Feed, Monitor
    from perfmon.themes import ThemeData
    from perfmon.viewmodel import MonitorState

LAYOUTS = ("auto", "overview", "timeline", "log", "strip")
_ESCAPE_MS = 30
"""So long what may be the begin of a longer key is waited for, unless the user says otherwise."""
_TURN_S = 0.001
"""A thread that reads and judges lets the one that answers keys have its turn so soon, several times a key."""


def add_screen_arguments(parser: argparse.ArgumentParser) -> None:
    """Window, layout, theme."""
    add_window_argument(parser)
    about = "layout of the panes (default: by terminal size)"
    parser.add_argument("--layout", choices=LAYOUTS, default="auto", help=about)
    parser.add_argument("--theme", metavar="NAME", help="colour theme (T switches)")
    parser.add_argument("--no-mouse", action="store_true", help="no mouse support: the terminal can select text")


def open_screen(
    args: argparse.Namespace,
    config: Config,
    *,
    title: str,
    specs: Sequence[str],
    feed: Callable[[], Feed],
    announce: bool = True,
    note: Callable[[], str | None] = lambda: None,
) -> int:
    """Runs the monitor until somebody leaves it; `announce` tells status lines and notifications of it.

    `note` is asked what is wrong with that which is read, each time when something new was found.
    """
    need_terminal()
    from perfmon.textgraphics import glyphs_for
    from perfmon.tui.terminal import curtain

    for name in ("COLUMNS", "LINES"):
        os.environ.pop(name, None)  # they would be believed where the terminal itself knows better, at every new size

    os.environ.setdefault("ESCDELAY", str(_ESCAPE_MS))
    check_keys(config)
    problems: list[str] = []
    themes, theme = themes_for(config, args.theme, problems)
    glyphs = glyphs_for(os.environ)
    sys.setswitchinterval(_TURN_S)
    with curtain(title, themes[theme], glyphs, args.layout):
        from perfmon.monitor import Monitor
        from perfmon.tui import AppOptions, PerfmonApp

        monitor = Monitor(feed, config, window_s=args.window)
        announcer = _Announcer(monitor, config, specs)
        monitor.notices.extend(problems)
        monitor.listeners.append(_Noted(monitor, note))
        if announce:
            monitor.listeners.append(announcer)
        app = PerfmonApp(monitor, AppOptions(title, themes, theme, args.layout, config.keys, glyphs))
    try:
        code = app.run(mouse=not args.no_mouse)
    finally:
        monitor.stop()
        announcer.close()
    raise_failure(monitor)
    if app.fault is not None:
        raise app.fault
    return code or ExitCode.DONE


def need_terminal() -> None:
    """Raises UsageError where there is no screen to open."""
    if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.__stderr__)):
        raise UsageError(
            "the live monitor needs a terminal (without one: perfmon snapshot SOURCE, perfmon status SOURCE)"
        )


def themes_for(config: Config, asked: str | None, told: list[str] | None = None) -> tuple[dict[str, ThemeData], str]:
    """All themes, and the one to begin with; `asked` must be known (UsageError). What is wrong is added to `told`."""
    from perfmon.core import DataFileError, load_state
    from perfmon.themes import REMEMBERED, chosen, load_themes

    problems: list[DataFileError] = []
    themes = load_themes(config.theme_dirs, problems)
    wrong = [str(problem) for problem in problems]
    if config.theme is not None and config.theme not in themes and not problems:
        wrong.append(f"theme = {config.theme!r}: expected one of {', '.join(sorted(themes))}")
    for line in wrong:
        warn(line)
    if told is not None:
        told.extend(wrong)
    picked = load_state(REMEMBERED)
    picked = picked if isinstance(picked, str) else None
    return themes, chosen(themes, asked=asked, picked=picked, configured=config.theme, environment=os.environ)


class _Noted:
    """Shows on the screen what `note` says, once."""

    def __init__(self, monitor: Monitor, note: Callable[[], str | None]) -> None:
        self._monitor, self._note, self._told = monitor, note, ""

    def __call__(self, picture: MonitorState) -> None:
        """Looks whether there is something new (in the monitor's thread)."""
        said = self._note() or ""
        if said and said != self._told:
            self._told = said
            self._monitor.notices.append(said)


class _Announcer:
    """Refreshes the state file, and sends alerts where the configuration says so; what that takes is loaded with the
    first picture, which nobody waits for."""

    def __init__(self, monitor: Monitor, config: Config, specs: Sequence[str]) -> None:
        self._monitor, self._config, self._specs = monitor, config, specs
        self._told: list[Callable[[MonitorState], None]] = []
        self._closers: list[Callable[[], None]] = []

    def __call__(self, picture: MonitorState) -> None:
        """Tells of a picture (in the monitor's thread)."""
        if not self._told:
            self._open()
        for tell in self._told:
            tell(picture)

    def close(self) -> None:
        """Takes the state file away."""
        for close in self._closers:
            close()

    def _open(self) -> None:
        from perfmon.alerting import Notifier
        from perfmon.monitor import Aside
        from perfmon.status import StateFile

        state = StateFile(self._specs)
        beside = Aside(state.write)  # a disk may be slow
        notifier = Notifier(self._config.notify, _to_terminal, self._monitor.notices.append)
        self._told = [beside, notifier.update]
        self._closers = [beside.close, state.remove, notifier.close]


def _to_terminal(text: str) -> None:
    """Bell and title, beside what the screen writes: whole sequences, in one go."""
    stream = sys.__stderr__
    if stream is not None:
        os.write(stream.fileno(), text.encode())


def own_keyboard(specs: Sequence[str]) -> None:
    """Read keys from the terminal if logs are read from stdin."""
    if "-" not in specs:
        return
    try:
        terminal = os.open("/dev/tty", os.O_RDWR)
    except OSError:
        raise UsageError("-: a pipe can only be watched in a terminal (without one: perfmon analyze -)") from None
    from perfmon.sources.follow import PipeTail

    PipeTail.stdin_fd = os.dup(0)
    os.dup2(terminal, 0)
    os.close(terminal)


def check_keys(config: Config) -> None:
    """Raises UsageError for keys of actions that there are not."""
    from perfmon.tui import ACTIONS

    known = {action.id for action in ACTIONS}
    for action in config.keys:
        if action not in known:
            raise UsageError(f"[keys] {action}: no such action (docs/monitor.md lists all)")
