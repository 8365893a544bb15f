"""Shared parts of the commands that open the screen: options, and opening it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from perfmon.core import ExitCode, UsageError, plain, user_folder

from ._options import add_window_argument, raise_failure, warn

if TYPE_CHECKING:
    from perfmon.core import Config
    from perfmon.monitor import Feed, HangSources, Monitor
    from perfmon.themes import ThemeData
    from perfmon.viewmodel import MonitorState

LAYOUTS = ("auto", "overview", "timeline", "log", "strip")
_ESCAPE_MS = 30
"""Time to wait for the rest of a longer key, unless the user sets it."""
_STARTS, _HINTED_STARTS = "starts", 5
_TURN_S = 0.001
"""Switch interval of threads, so that keys are handled while the monitor reads."""


def add_screen_arguments(parser: argparse.ArgumentParser) -> None:
    """Window, layout, theme."""
    add_window_argument(parser)
    about = "layout of the panes (default: by terminal size)"
    parser.add_argument("--layout", choices=LAYOUTS, default="auto", help=about)
    parser.add_argument("--theme", metavar="NAME", help="colour theme (T switches)")
    parser.add_argument("--no-mouse", action="store_true", help="no mouse support: the terminal can select text")


def add_hang_source_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what may be used of a run that hangs, beyond its files."""
    hang = parser.add_argument_group("a run that hangs")
    about = (
        "once the logs show a hang that no dump explains, query the job's NCCL RAS at this address, once (a query has"
        " crashed jobs with NCCL 2.26.2-2.26.5, 2.27.3-2.27.7 and 2.29.7)"
    )
    hang.add_argument("--ras", metavar="HOST:PORT", default="", help=about)
    about = "show the stack of the rank that is behind, of this host, with py-spy (it reads the memory of the process)"
    hang.add_argument("--dossier", action="store_true", help=about)


def hang_sources(args: argparse.Namespace) -> Callable[[], HangSources]:
    """Return what gives the sources about hangs that the user agreed to. Raises UsageError for a wrong address."""
    if args.ras:
        from perfmon.hangs import parse_ras

        if parse_ras(args.ras) is None:
            forms = "HOST:PORT, or ssh://HOST/localhost:28028 of a host that is read"
            raise UsageError(f"--ras {plain(args.ras, 120)}: expected {forms}")

    def sources() -> HangSources:
        from perfmon.monitor import HangSources  # not before the first frame is on the screen

        return HangSources(args.ras, args.dossier)

    return sources


class SourceCheck(NamedTuple):
    """Findings about the sources before they are read."""

    note: str = ""
    """A problem of theirs, shown once."""
    together: bool = False
    """They are several runs, which are then not shown as the progress of one."""
    unfound: str = ""
    """Reason why they hold no logs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Screen:
    """A live monitor to open."""

    args: argparse.Namespace
    title: str
    specs: Sequence[str]
    feed: Callable[[], Feed]
    announce: bool = True
    """Write the state file and send notifications."""
    check: Callable[[], SourceCheck] = SourceCheck
    """Called with each picture, first while the first frame is drawn."""
    hang: Callable[[], HangSources] | None = None
    """Sources that may be used of a run that hangs, beyond its files."""
    back: bool = False
    """Esc leaves it, too, once nothing is left to take back: then BACK of `perfmon.tui` is returned."""
    again: bool = False
    """Its sources can be read from their start once more, as for a format that was learned from them."""

    def open(self, config: Config) -> int:
        """Run the monitor until the user leaves it."""
        while True:
            code = self._run(config)
            from perfmon.tui import AGAIN  # not before the first frame is on the screen

            if code != AGAIN:
                return code or ExitCode.DONE
            formats = user_folder() / "formats"
            if formats.is_dir() and formats not in config.format_dirs:
                config = replace(config, format_dirs=(*config.format_dirs, formats))

    def _run(self, config: Config) -> int | None:
        problems: list[str] = []
        themes, theme = themes_for(config, self.args.theme, problems)
        need_terminal()
        from perfmon.textgraphics import glyphs_for
        from perfmon.tui.terminal import curtain

        for name in ("COLUMNS", "LINES"):
            os.environ.pop(name, None)  # they would be believed where the terminal knows better, at every new size

        os.environ.setdefault("ESCDELAY", str(_ESCAPE_MS))
        check_keys(config)
        glyphs, layout = glyphs_for(os.environ), self.args.layout
        sys.setswitchinterval(_TURN_S)
        with curtain(self.title, themes[theme], glyphs, layout):
            from perfmon.monitor import Monitor
            from perfmon.tui import AppOptions, PerfmonApp

            monitor = Monitor(self.feed, config, window_s=self.args.window)
            announcer = _Announcer(monitor, config, self.specs)
            monitor.notices.extend(problems)
            if self.hang is not None:
                monitor.allow(self.hang())
            notes = {""}

            def show_check(_: MonitorState) -> None:
                note, monitor.together, monitor.unfound = self.check()
                if note not in notes:
                    notes.add(note)
                    monitor.notices.append(note)

            monitor.listeners.append(show_check)
            if self.announce:
                monitor.listeners.append(announcer)
            keys, hints = config.keys, _hints()
            options = AppOptions(self.title, themes, theme, layout, keys, glyphs, hints, self.back, self.again)
            app = PerfmonApp(monitor, options)
        try:
            code = app.run(mouse=not self.args.no_mouse)
        finally:
            monitor.stop()
            announcer.close()
        raise_failure(monitor)
        if app.fault is not None:
            raise app.fault
        return code


def _hints() -> tuple[str, ...]:
    """Hints for a new user: those at what was not used yet, in the first few starts."""
    from perfmon.core import load_state, remember
    from perfmon.tui import HINTS

    begun = load_state(_STARTS) or "0"
    count = int(begun) if begun.isdecimal() else 0
    if count >= _HINTED_STARTS:
        return ()
    remember(_STARTS, str(count + 1))
    known = (load_state("learned") or "").split(",")
    return tuple(name for name in HINTS if name not in known)


_MONITOR = "the live monitor needs a terminal (without one: perfmon snapshot SOURCE, perfmon status SOURCE)"


def need_terminal(problem: str = _MONITOR) -> None:
    """Raise UsageError where there is no screen to open."""
    if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.__stderr__)):
        raise UsageError(problem)


def themes_for(
    config: Config, requested: str | None, notices: list[str] | None = None
) -> tuple[dict[str, ThemeData], str]:
    """All themes, and the name of the first; `requested` must be known (UsageError). Adds problems to `notices`."""
    from perfmon.core import DataFileError, load_state
    from perfmon.themes import REMEMBERED, choose_theme, load_themes

    problems: list[DataFileError] = []
    themes = load_themes(config.theme_dirs, problems)
    wrong = [str(problem) for problem in problems]
    if config.theme is not None and config.theme not in themes and not problems:
        wrong.append(f"theme = {config.theme!r}: expected one of {', '.join(sorted(themes))}")
    for line in wrong:
        warn(line)
    if notices is not None:
        notices.extend(wrong)
    picked = load_state(REMEMBERED)
    picked = picked if isinstance(picked, str) else None
    return themes, choose_theme(
        themes, requested=requested, picked=picked, configured=config.theme, environment=os.environ
    )


class _Announcer:
    """Refreshes the state file, and sends notifications; its modules are loaded with the first picture."""

    def __init__(self, monitor: Monitor, config: Config, specs: Sequence[str]) -> None:
        self._monitor, self._config, self._specs = monitor, config, specs
        self._listeners: list[Callable[[MonitorState], None]] = []
        self._closers: list[Callable[[], None]] = []

    def __call__(self, picture: MonitorState) -> None:
        """Handle a picture (in the monitor's thread)."""
        if not self._listeners:
            self._open()
        for listen in self._listeners:
            listen(picture)

    def close(self) -> None:
        """Remove the state file."""
        for close in self._closers:
            close()

    def _open(self) -> None:
        from perfmon.alerting import Notifier
        from perfmon.monitor import BackgroundListener
        from perfmon.status import StateFile

        state = StateFile(self._specs)
        writer = BackgroundListener(state.write)  # a disk may be slow
        notifier = Notifier(self._config.notify, _to_terminal, self._monitor.notices.append)
        self._listeners = [writer, notifier.update]
        self._closers = [writer.close, state.remove, notifier.close]


def _to_terminal(text: str) -> None:
    """Write whole sequences (bell, title) in one go, between those of the screen."""
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
    """Raise UsageError for keys of unknown actions."""
    from perfmon.tui import ACTIONS

    known = {action.id for action in ACTIONS}
    for action in config.keys:
        if action not in known:
            raise UsageError(f"[keys] {action}: no such action (docs/monitor.md lists all)")
