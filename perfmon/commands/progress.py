"""A progress bar on stderr, for people who wait: only on a terminal, and only once the work takes long."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_PATIENCE_S = 0.7


class ReadingBar:
    """Called with (done bytes, total bytes) while logs are read; use it as a context."""

    def __init__(self, label: str, terminal: bool | None = None) -> None:
        self._label = label
        self._terminal = sys.stderr.isatty() if terminal is None else terminal
        self._began = time.monotonic()
        self._bar: tuple[Progress, TaskID] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar[0].stop()

    def __call__(self, done: int, total: int) -> None:
        """Shows how far it is; done > total is a log that grew."""
        if self._bar is None and self._terminal and time.monotonic() - self._began > _PATIENCE_S:
            self._bar = self._start()
        if self._bar:
            progress, task = self._bar
            progress.update(task, completed=done, total=max(done, total))

    def _start(self) -> tuple[Progress, TaskID]:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        progress = Progress(*columns, console=Console(stderr=True), transient=True)
        task = progress.add_task(self._label, total=None)
        progress.start()
        return progress, task
