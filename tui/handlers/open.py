"""Actions that open something or answer an alert: pages, prompts, other programs, files; and requests of panes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported

from perfmon.core import InputError, PerfmonError, evidence_text, plain, remember, short_duration
from perfmon.diagnosis import Assessment, EvidenceLine
from perfmon.logbuffer import Line
from perfmon.viewmodel import Alert, AlertState, Bar, BaselineRun, MetricLane, baseline_run, little_is_recognised

from ..actions import HINTS, Action
from ..plain_app import AGAIN
from ..widgets.overlays import PageScreen, Prompt
from ..widgets.pane import Request
from .view import TimeActions

if TYPE_CHECKING:
    from perfmon.sources.formats import Proposal

    from ..render.lanes import Lane

LEARNED = "learned"
"""Name of the saved list of actions that the user has used."""


class FileActions(TimeActions):
    """Pages, pictures, recordings and formats as files; themes."""

    def _write(self, write: Callable[[], str]) -> None:
        """Do it in a thread, and show its result, or in one line why it failed."""

        async def work() -> None:
            try:
                self.show_message(await asyncio.to_thread(write))
            except PerfmonError as error:
                self.show_message(str(error))

        self.run_worker(work(), exclusive=False)

    def do_snapshot(self) -> None:
        """Prompt for the name of a page: nothing is written that the user has not named."""
        name = f"perfmon_{datetime.now().astimezone():%Y%m%d_%H%M%S}.md"
        self.push_screen(Prompt("save this page as", name), lambda path: self.save_page(path) if path else None)

    def save_page(self, path: str = "") -> None:
        """Write a page to a new file, or to a folder (this one) where it is named after the time."""
        picture = self.picture

        def write() -> str:
            from perfmon.reports import render_page, save

            if picture.snapshot is None:
                raise InputError("nothing has been read yet")
            made, target = datetime.now().astimezone(), Path(path or ".").expanduser()
            if target.is_file():
                raise InputError(f"{path}: already exists (choose another name)")
            return f"written: {save(render_page(picture.snapshot, picture, made), target, made)}"

        self._write(write)

    def save_svg(self, path: str) -> None:
        """Write an image of the screen to `path`, or where that is a folder or "", to a file named after the time."""
        from ..render.svg import captured

        image = captured(self, self.skin, self.opening.title)

        def write() -> str:
            from perfmon.reports import save

            return f"written: {save(image, Path(path or '.'), datetime.now().astimezone(), '.svg')}"

        self._write(write)

    def do_learn(self, log: str = "") -> None:
        """Propose a format for a log: without a name for the one of which least is recognised. Nothing is written."""
        unread = [source for source in self.picture.sources if little_is_recognised(source)]
        chosen = log or next((source.name for source in sorted(unread, key=lambda s: -(s.lines - s.events))), "")
        if not chosen:
            self.show_message("every log is recognised: name one to learn from")
            return

        def propose() -> tuple[Proposal, Path]:
            from perfmon.core import load_config
            from perfmon.sources.formats import format_name, installed, learn, load_packs

            packs, name = load_packs(load_config().format_dirs), format_name(chosen)
            target = installed(name, packs)
            try:
                return learn(chosen, name, packs), target
            except InputError as error:
                instead = "log steps with the emit helper (docs/instrument.md), or write a format (CONTRIBUTING.md)"
                raise InputError(f"{error}; {instead}") from None

        async def work() -> None:
            from ..screens.pages import ProposalPage

            self.show_message(f"reading {plain(chosen, 60)}")
            try:
                proposal, target = await asyncio.to_thread(propose)
            except PerfmonError as error:
                self.show_message(str(error))
                return
            self.show_message("")
            self.push_screen(PageScreen(ProposalPage(self.skin, chosen, proposal, target, again=self.opening.again)))

        self.run_worker(work(), exclusive=False)

    def request_keep_format(self, about: tuple[Proposal, Path]) -> None:
        """Write a proposed format, and read the logs once more with it where that is possible."""
        from perfmon.sources.formats import keep

        try:
            written = keep(*about)
        except PerfmonError as error:
            self.show_message(str(error))
            return
        if self.opening.again:
            self.exit(AGAIN)
        else:
            self.show_message(f"written: {written}; used from the next start")

    def do_record(self) -> None:
        """Start or stop a recording."""
        self.monitor.toggle_recording(f"perfmon-{datetime.now():%Y%m%d-%H%M%S}.pmrec")

    def do_thresholds(self) -> None:
        """Learn thresholds from this run, or use those given again."""
        snapshot = self.picture.snapshot
        if snapshot is not None and snapshot.assessment is Assessment.UNREADABLE:
            self.show_message("no thresholds to learn: these logs cannot be read; :learn proposes a format")
            return
        self.monitor.toggle_baseline()

    def do_theme(self) -> None:
        """Switch to the next theme."""
        self.choose_theme(self.next_theme)

    def choose_theme(self, name: str) -> None:
        """Switch to a theme and remember it."""
        from perfmon.core import remember

        self.apply_theme(name)
        self.show_message(f"theme: {name}")
        remember("theme", name)

    def do_quit(self) -> None:
        """Quit."""
        self.exit(0)


class OpenActions(FileActions):
    """Charts, weight updates, alerts, prompts and other programs. `request_NAME` answers a `Request` of a pane."""

    def on_request(self, message: Request) -> None:
        """Answer a pane or page."""
        message.stop()
        getattr(self, f"request_{message.action}")(message.about)

    def request_action(self, action: Action) -> None:
        """Do what was clicked in the footer, in the pane whose keys it shows."""
        self.do(action)

    def do(self, action: Action) -> None:
        """Do an action in the focused pane, else in the app; not in the app under an overlay that would hide it."""
        method = getattr(self.focused, f"do_{action.id}", None)
        if method is None and (not self.covered or (action.everywhere and not self.screen.is_modal)):
            method = getattr(self, f"do_{action.id}", None)
        if method is not None:
            method()
            self._learned(action.id)

    def _learned(self, name: str) -> None:
        """Show the hint at that action no more, the next time neither."""
        if name in self.opening.hints:
            self.opening.hints = tuple(hint for hint in self.opening.hints if hint != name)
            remember(LEARNED, ",".join(hint for hint in HINTS if hint not in self.opening.hints))
            self._show_header()

    # --- charts and weight updates ------------------------------------------------------------------------------------
    def request_open_lane(self, lane: Lane) -> None:
        """Open the page of a lane."""
        if isinstance(lane.shown, Bar):
            self.open_trace(lane.shown)
        elif isinstance(lane.shown, MetricLane):
            self.open_chart(lane.shown.name)
        elif lane.kind == "alerts":
            cursor = self.time_view.cursor
            held = (one for one in self.picture.alerts if cursor is not None and one.began <= cursor)
            under = next((one for one in held if (cursor or 0.0) <= one.held_until(self.picture.now)), None)
            self.request_verdict() if under is None else self.request_alert(under)
        else:
            self.open_chart(lane.key)

    baseline: BaselineRun | None = None
    """The run that charts show behind this one."""

    def open_chart(self, *metrics: str) -> None:
        """Open metrics as charts, one below the other."""
        from ..screens.chart import ChartPage

        known = [name for name in metrics if any(lane.name == name for lane in self.picture.board.metrics)]
        if known:
            page = ChartPage(self.skin, known[0], self.monitor.picture, known[1:], self.baseline)
            self.push_screen(PageScreen(page))

    def _without_chart(self) -> None:
        self.show_message("only on a chart: enter on a metric opens one")

    do_add_chart = do_remove_chart = do_smooth = _without_chart

    def do_baseline(self) -> None:
        """Prompt for a recorded run."""
        self.request_baseline()

    def request_baseline(self, about: object = None) -> None:
        """Prompt for a recorded run, to show it behind this one."""

        def load(text: str | None) -> None:
            if text and text.strip():
                self.load_baseline(text.strip())

        self.push_screen(Prompt("recorded run, or its logs, to show behind this one:", ""), load)

    def load_baseline(self, path: str) -> None:
        """Read a recording or the logs of a run, and show its metrics behind those of this one at the same age."""

        def read() -> BaselineRun:
            from perfmon.core import load_config
            from perfmon.pipeline import Options, examine

            snapshot, _, _ = examine(Options((path,), jobs=1, config=load_config()))
            place = Path(path).absolute()
            place = place.parent if place.name in ("logs", "log") else place  # that is no name of a run
            return baseline_run(place.name or path, snapshot)

        async def work() -> None:
            self.show_message(f"reading {plain(path, 60)}")
            try:
                self.baseline = found = await asyncio.to_thread(read)
            except PerfmonError as error:
                self.show_message(plain(str(error), 200))
                return
            if page := next(iter(self.screen.query("ChartPage")), None):
                page.baseline = found  # type: ignore[attr-defined]
                page.show(self.monitor.picture)  # type: ignore[attr-defined]
            lanes = {lane.metric for lane in self.picture.board.metrics}
            self.show_message(f"{plain(found.name, 40)}: {len(lanes & found.times.keys())} metrics in common")

        self.run_worker(work(), exclusive=False)

    def open_trace(self, bar: Bar) -> None:
        """Open a weight update with its lines."""
        from ..screens.pages import TracePage

        self.push_screen(PageScreen(TracePage(self.skin, bar, self.picture, self.monitor.logbook)))

    def do_waterfall(self) -> None:
        """Open the weight update under the cursor, else the selected or the newest one."""
        bars = self.updates()
        lane, cursor = self.board.lane, self.time_view.cursor
        under = [bar for bar in bars if cursor is not None and bar.start <= cursor <= bar.end]
        if lane is not None and lane.kind == "update" and isinstance(lane.shown, Bar) and not under:
            under = [lane.shown]
        if under or bars:
            self.open_trace((under or bars)[-1])
        else:
            self.show_message("no weight update in view (- zooms out)")

    # --- lines of logs ------------------------------------------------------------------------------------------------
    def request_line(self, line: Line) -> None:
        """Open the weight update that a line is about, else go to its time."""
        bars = [bar for bar in self.updates() if line.trace and bar.key == line.trace]
        when = line.time
        if bars:
            self.open_trace(bars[-1] if when is None else min(bars, key=lambda bar: abs(bar.start - when)))
        elif when is not None:
            self.point(when)
        else:
            self.show_message("the time of this line is unknown")

    def request_jump(self, line: EvidenceLine) -> None:
        """Close what is open and show a line among its neighbours."""
        self.jump_to_line(line.source, line.line, line.text)

    def request_copy(self, line: EvidenceLine) -> None:
        """Copy the position and the text of a line to the clipboard."""
        self.copy_to_clipboard(f"{line.source}:{line.line} {line.text}")
        self.show_message("copied")

    def request_copy_text(self, text: str) -> None:
        """Copy a command to the clipboard."""
        self.copy_to_clipboard(text)
        self.show_message(f"copied: {plain(text, 200)}")

    def request_pager(self, line: EvidenceLine) -> None:
        """Open the log of a line in the user's pager."""
        from ..terminal.suspend import opened_at, shown_elsewhere

        opened = opened_at(self.monitor.logbook, line.source, line.line, evidence_text(line.text))
        if opened is None:
            self.show_message(f"{plain(line.source, 60)}:{line.line} is no longer buffered, and its file is missing")
            return
        try:
            with self.suspend():
                problem = shown_elsewhere(opened)
        except SuspendNotSupported:
            opened.discard()
            problem = "cannot start another program on this terminal"
        if problem:
            self.show_message(problem)

    def do_pager(self) -> None:
        """Open the log at the line under its cursor in $PAGER or lnav."""
        if self.log_pane.view.current is None:
            self.show_message("no line to open")
        else:
            self.log_pane.do_pager()

    def do_yank(self) -> None:
        """Copy the line under the cursor of the log."""
        self.log_pane.do_yank()

    def do_filter_lanes(self) -> None:
        """Prompt for a part of a lane's name; no text shows all lanes again, hence it begins empty."""
        self.push_screen(Prompt("filter lanes (no text: all)", ""), lambda text: self.board.want(text or ""))

    # --- alerts -------------------------------------------------------------------------------------------------------
    def request_alert(self, alert: Alert) -> None:
        """Open the page of an alert."""
        from ..screens.pages import AlertPage

        self.push_screen(PageScreen(AlertPage(self.skin, alert, self.monitor.picture)))

    def do_open(self) -> None:
        """Open the verdict if a pane has nothing of its own to open."""
        self.request_verdict()

    def do_verdict(self) -> None:
        """Open the alert of the verdict."""
        self.request_verdict()

    def request_verdict(self, about: object = None) -> None:
        """Open the alert of the verdict, else the one that fires first; without any, the page of the run's state."""
        snapshot, alerts = self.picture.snapshot, self.picture.alerts
        named = snapshot.verdict.signature if snapshot is not None and snapshot.verdict is not None else ""
        of_verdict = [alert for alert in alerts if alert.key[0] == named and alert.state is not AlertState.RESOLVED]
        firing = [alert for alert in alerts if alert.state is AlertState.FIRING]
        if of_verdict or firing:
            self.request_alert((of_verdict or firing)[0])
        elif snapshot is not None and snapshot.assessment is Assessment.UNREADABLE:
            self.post_message(Request("doctor"))
        elif snapshot is None:
            self.show_message("nothing has been read yet")
        else:
            from ..screens.pages import StatePage

            self.push_screen(PageScreen(StatePage(self.skin, self.picture, self.monitor.logbook)))

    def request_ack(self, alert: Alert) -> None:
        """Acknowledge an alert."""
        self.monitor.ack(alert.key)

    def request_undo(self, alert: Alert) -> None:
        """Take back acknowledgement and silence."""
        self.monitor.undo(alert.key)

    def request_silence(self, alert: Alert) -> None:
        """Prompt for a duration, then silence an alert."""
        name = plain(alert.finding.title, 40)

        def silence(text: str | None) -> None:
            if text is None:
                return
            try:
                minutes = float(text.strip().removesuffix("m"))
            except ValueError:
                minutes = 0.0
            if not 0 < minutes <= 10_000:
                self.show_message(f"{plain(text, 20)}: expected minutes, such as 15")
                return
            self.monitor.silence(alert.key, 60.0 * minutes)
            self.show_message(f"{name}: silenced for {short_duration(60.0 * minutes)} (u undoes it)")

        self.push_screen(Prompt(f"silence {name} for how many minutes?", "15"), silence)
