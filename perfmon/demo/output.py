"""Writes the logs of a simulated run to files."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from perfmon.errors import InputError, UsageError
from perfmon.text import plain

from .journal import BEGIN
from .scenarios import MENDED, SCENARIOS
from .simulation import Simulation

_LONGEST_MINUTES = 10_000.0


def simulated(scenario: str, seed: int, minutes: float, begin: datetime = BEGIN, *, mended: bool = False) -> Simulation:
    """A run that begins at `begin` by the clock in its lines; `mended`: as it is once its advice was followed.

    Raises UsageError for an unknown scenario, one that has no mended run, or a length out of range.
    """
    if scenario not in SCENARIOS:
        raise UsageError(f"{plain(scenario, 80)}: no such scenario (expected one of: {', '.join(SCENARIOS)})")
    if not 0 < minutes <= _LONGEST_MINUTES:
        raise UsageError(f"{minutes:g} minutes: expected more than 0 and at most {_LONGEST_MINUTES:g}")
    if mended and scenario not in MENDED:
        raise UsageError(f"{scenario}: no fixed run of it (available for: {', '.join(MENDED)})")
    return Simulation((MENDED if mended else SCENARIOS)[scenario], seed, 60.0 * minutes, begin)


def write_demo(
    folder: Path, scenario: str = "frontend-queue", seed: int = 0, minutes: float = 10, *, mended: bool = False
) -> list[Path]:
    """Writes orchestrator.log, inference.log and trainer.log of a run; the same arguments give the same bytes.

    The run ends with the last step that fits into `minutes` (three steps at least). Raises UsageError for an unknown
    scenario or a length out of range, InputError when the folder cannot be written.
    """
    simulation = simulated(scenario, seed, minutes, mended=mended)
    simulation.run()
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in simulation.journal.texts().items():
            (folder / name).write_text(text, encoding="utf-8", newline="\n")
            written.append(folder / name)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror or error} (choose another folder)") from None
    return written
