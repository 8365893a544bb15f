"""What all tests share: tests of real components may be skipped on a developer's machine, not where they must run."""

from __future__ import annotations

import signal
from collections.abc import Generator

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declares --require-system."""
    parser.addoption("--require-system", action="store_true", help="a skipped test marked `system` fails")


def pytest_configure() -> None:
    """In the background, or under nohup, signals are ignored: then what the tests start would ignore them, too."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)  # what is not ignored is as usual in what is started


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turns a skip into a failure where nothing may be missing."""
    report = yield
    skipped = report.skipped and not hasattr(report, "wasxfail")
    if skipped and item.get_closest_marker("system") and item.config.getoption("--require-system"):
        report.outcome = "failed"
        report.longrepr = f"--require-system: {item.nodeid} was skipped: {report.longrepr}"
    return report
