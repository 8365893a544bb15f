"""The logs while a run is simulated: lines with their times, dressed as the programs dress them."""

from __future__ import annotations

from datetime import datetime, timedelta

BEGIN = datetime.fromisoformat("2026-11-20T09:00:00")
"""When every built-in run begins, by the clock in its lines."""
MONOTONIC_S = 86_412.25
"""What the machine's monotonic clock says then."""
ORCHESTRATOR, INFERENCE, TRAINER = "orchestrator.log", "inference.log", "trainer.log"
_COLOURS = {
    "DEBUG": "\x1b[34m\x1b[1m",
    "INFO": "\x1b[1m",
    "SUCCESS": "\x1b[32m\x1b[1m",
    "WARNING": "\x1b[33m\x1b[1m",
    "ERROR": "\x1b[31m\x1b[1m",
}
_PREFIX = {ORCHESTRATOR: "", TRAINER: "[trainer0]:"}


class Journal:
    """Collects lines in any order of time; the times are seconds since the run began."""

    def __init__(self) -> None:
        self._lines: dict[str, list[tuple[float, str]]] = {ORCHESTRATOR: [], INFERENCE: [], TRAINER: []}

    def say(self, log: str, at: float, level: str, message: str, place: str = "") -> None:
        """A line of the orchestrator or the trainer, coloured as they colour their files."""
        colour = _COLOURS[level]
        suffix = f"{colour}\x1b[22m [{place}]\x1b[0m\x1b[0m" if place else ""
        head = f"{_PREFIX[log]}\x1b[2m{_moment(at):%H:%M:%S}\x1b[0m {colour}{level:>7}\x1b[0m"
        self._lines[log].append((at, f"{head} {colour}\x1b[22m{message}\x1b[0m\x1b[0m{suffix}"))

    def serve(self, at: float, place: str, message: str) -> None:
        """A line of the inference server."""
        self._lines[INFERENCE].append(
            (at, f"(APIServer pid=412) INFO {_moment(at):%m-%d %H:%M:%S} [{place}] {message}")
        )

    def access(self, at: float, request: str) -> None:
        """An access line of the inference server, which has no clock."""
        self._lines[INFERENCE].append(
            (at, f'(APIServer pid=412) INFO:     10.0.0.3:53122 - "{request} HTTP/1.1" 200 OK')
        )

    def cut(self, at: float) -> None:
        """Forgets what is later than `at`."""
        self._lines = {log: [line for line in lines if line[0] <= at] for log, lines in self._lines.items()}

    def texts(self) -> dict[str, str]:
        """Content of each log, its lines in the order of their times."""
        ordered = {log: sorted(lines, key=lambda line: line[0]) for log, lines in self._lines.items()}
        return {log: "".join(f"{line}\n" for _, line in lines) for log, lines in ordered.items()}


def clock(at: float) -> str:
    """A `t=` field."""
    return f"t={MONOTONIC_S + at:.6f}"


def spell_duration(seconds: float) -> str:
    """A duration as prime-rl prints it: `850ms`, `42.3s`, `1m 13s`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    return f"{seconds:.1f}s" if seconds < 60 else f"{int(seconds // 60)}m {int(seconds % 60)}s"


def _moment(at: float) -> datetime:
    return BEGIN + timedelta(seconds=at)
