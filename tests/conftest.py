"""What all tests share: tests of real components may be skipped on a developer's machine, not where they must run."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

_BEFORE_MB = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declares our own options."""
    parser.addoption("--require-system", action="store_true", help="a skipped test marked `system` fails")
    parser.addoption("--max-memory-mb", type=int, default=1024, help="the most that a process of tests may take")


def pytest_configure() -> None:
    """In the background, or under nohup, signals are ignored: then what the tests start would ignore them, too."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)  # what is not ignored is as usual in what is started


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of one scenario share the run that a module plays for them: they go to one worker, which plays it once.

    So do tests that share a server.
    """
    for item in items:
        callspec = getattr(item, "callspec", None)
        shared = [callspec.params[name] for name in ("scenario", "any_sshd") if callspec and name in callspec.params]
        if shared:
            item.add_marker(pytest.mark.xdist_group(f"{item.path.stem}-{shared[0]}"))


@pytest.fixture(autouse=True, scope="session")
def _temporary_folder() -> Iterator[None]:
    """What tests, and the processes that they end, leave in the folder for temporary files is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="perfmon-tests-") as folder, pytest.MonkeyPatch.context() as patch:
        Path(folder).chmod(0o1777)  # tests that are somebody else use it, too
        patch.setenv("TMPDIR", folder)
        patch.setattr(tempfile, "tempdir", None)
        yield


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Remembers what the process has taken at most, before the test."""
    item.stash[_BEFORE_MB] = _peak_mb()


def _peak_mb() -> int:
    """The most memory that this process has taken; 0 where the system does not say.

    `getrusage` is of no use: it counts what the process took from which this one was started.
    """
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) >> 10 for line in status.splitlines() if line.startswith("VmHWM:")), 0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turns a skip into a failure where nothing may be missing, and so the test in which the process grew too large."""
    report = yield
    most_mb = item.config.getoption("--max-memory-mb")
    if report.when == "call" and report.passed and item.stash.get(_BEFORE_MB, most_mb) < most_mb <= _peak_mb():
        report.outcome = "failed"
        report.longrepr = f"--max-memory-mb={most_mb}: the process of {item.nodeid} has taken {_peak_mb()} MB"
    skipped = report.skipped and not hasattr(report, "wasxfail")
    if skipped and item.get_closest_marker("system") and item.config.getoption("--require-system"):
        report.outcome = "failed"
        report.longrepr = f"--require-system: {item.nodeid} was skipped: {report.longrepr}"
    return report
