"""Nothing heavy is loaded before it is needed."""

from __future__ import annotations

import json
import subprocess
import sys

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
