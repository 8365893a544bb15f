"""The distance between two clocks, asked for through a shell."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfmon.sources.remote.host import ClockProbe
from perfmon.sources.shell import LocalRunner


class Shifted:
    """A shell whose `date` shows another time."""

    def __init__(self, folder: Path) -> None:
        self._date = folder / "date"

    def shift(self, by: str, form: str = "'+%s.%N %z'") -> str:
        """What puts it there."""
        self._date.write_text(f"#!/bin/sh\nexec /bin/date -d '{by}' {form}\n")
        self._date.chmod(0o755)
        return f"PATH={self._date.parent}:$PATH; hash -r 2>/dev/null"


async def test_an_offset_lies_within_its_uncertainty(tmp_path: Path) -> None:
    runner, echo = await LocalRunner.open(), ClockProbe()
    try:
        assert echo.offset is None
        await runner.run(Shifted(tmp_path).shift("90 seconds"))
        for _ in range(3):
            await echo.ask(runner)
        offset = echo.offset
        assert offset is not None
        assert abs(offset.seconds - 90) <= offset.uncertainty_s + 0.005
        assert offset.uncertainty_s < 1.0
    finally:
        await runner.close()


async def test_a_clock_that_is_set_is_believed_at_once(tmp_path: Path) -> None:
    runner, echo, shifted = await LocalRunner.open(), ClockProbe(), Shifted(tmp_path)
    try:
        await runner.run(shifted.shift("0 seconds"))
        for _ in range(3):
            await echo.ask(runner)
        await runner.run(shifted.shift("-1 hour"))
        await echo.ask(runner)
        assert echo.offset is not None
        assert echo.offset.seconds == pytest.approx(-3600, abs=1)
    finally:
        await runner.close()


async def test_a_clock_without_fractions(tmp_path: Path) -> None:
    runner, echo = await LocalRunner.open(), ClockProbe()
    try:
        await runner.run(Shifted(tmp_path).shift("0 seconds", "'+%s.%%N +0530'"))
        await echo.ask(runner)
        assert echo.offset is not None
        assert abs(echo.offset.seconds) <= echo.offset.uncertainty_s
        assert echo.now().utcoffset().total_seconds() == 5.5 * 3600  # type: ignore[union-attr]
    finally:
        await runner.close()
