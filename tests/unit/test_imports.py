"""Nothing heavy is loaded before it is needed."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

HEAVY = {"textual", "asyncssh", "duckdb", "matplotlib", "pynvml", "numpy", "pandas"}
LATER = {"rich", "shtab", "ahocorasick_rs", "asyncinotify", "perfmon.pipeline.session", "perfmon.commands.analyze"}
"""Light enough for a command that uses them, too heavy for `--help`."""


def loaded(code: str) -> set[str]:
    """Names in `sys.modules` after `code` ran in a fresh interpreter."""
    report = "\nimport json, sys\nprint(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code + report], capture_output=True, text=True, check=True, timeout=60)
    return set(json.loads(done.stderr))


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_help_and_version_load_next_to_nothing(argument: str) -> None:
    modules = loaded(f"from perfmon.cli import main\nassert main([{argument!r}]) == 0")
    assert modules & (HEAVY | LATER) == set()


@pytest.mark.parametrize(
    "module",
    [
        "perfmon.cli",
        "perfmon.pipeline.session",
        "perfmon.monitor.headless",
        "perfmon.alerting.notifications",
        "perfmon.doctor",
        "perfmon.exporters.server",
        "perfmon.reports.snapshot_page",
        "perfmon.diagnosis.baseline",
        "perfmon.commands.analyze",
        "perfmon.commands.compare",
        "perfmon.comparison",
        "perfmon.reports.comparison",
        "perfmon.commands.rules",
        "perfmon.commands.pages",
        "perfmon.commands.status",
        "perfmon.commands.live",
        "perfmon.commands.setup",
        "perfmon.commands.export",
        "perfmon.commands.nccl",
        "perfmon.commands.keep",
        "perfmon.sources.remote.discovery",
        "perfmon.tui.terminal.splash",
    ],
)
def test_headless_modules_load_no_heavy_library(module: str) -> None:
    assert loaded(f"import {module}") & HEAVY == set()


@pytest.mark.parametrize("command", [["watch", "."], ["."], ["demo"]], ids=" ".join)
def test_the_first_frame_waits_for_nothing_that_is_slow_to_load(command: list[str], tmp_path: Path) -> None:
    """The first frame is painted before the screen's library, the rules and the readers of logs are loaded."""
    (tmp_path / "train.log").write_text("step 1 loss 2.0\n")
    code = (
        "import json, os, pathlib, sys\n"
        "from perfmon.cli import main\n"
        "from perfmon.tui.terminal import splash\n"
        "def note(_: str) -> None:\n"
        "    pathlib.Path('loaded').write_text(json.dumps(sorted(sys.modules)))\n"
        "    os._exit(0)\n"
        "splash._write = note\n"
        f"main({command!r})\n"
    )
    child, terminal = pty.fork()
    if not child:
        os.chdir(tmp_path)
        os.execv(sys.executable, [sys.executable, "-c", code])  # noqa: S606
    with suppress(OSError):  # of a terminal without a process
        while os.read(terminal, 4096):
            pass
    os.close(terminal)
    os.waitpid(child, 0)
    early = set(json.loads((tmp_path / "loaded").read_text()))
    assert early & (HEAVY | {"asyncio", "perfmon.rules", "perfmon.monitor", "perfmon.sources.formats"}) == set()
