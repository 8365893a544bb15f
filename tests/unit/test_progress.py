"""The bar is for people who wait, and leaves nothing behind."""

from __future__ import annotations

import pytest

from perfmon.commands import _options


@pytest.mark.parametrize(("terminal", "patience", "shown"), [(True, -1, True), (False, -1, False), (True, 60, False)])
def test_the_bar_shows_on_a_terminal_for_long_work_only(
    terminal: bool, patience: float, shown: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_options, "_PATIENCE_S", patience)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("COLUMNS", "100")
    with _options.ProgressBar("reading logs", terminal) as bar:
        bar(50, 100)
        bar(150, 100)
    out, err = capsys.readouterr()
    assert out == ""
    assert ("reading logs" in err) == shown
