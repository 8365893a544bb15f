"""Regenerates the generated parts of the documentation (`make docs`); with --check, says which have drifted.

Whole pages are listed in PAGES. Other pages hold blocks, from a line `<!-- KIND:NAME -->` to a line `<!-- /KIND -->`:
`table` from the data files, `output` from running perfmon on built-in runs.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pages
import screen_pages

ROOT = Path(__file__).resolve().parents[1]
PAGES: Mapping[str, Callable[[], str]] = {
    "docs/cli.md": pages.cli,
    "docs/formats.md": pages.formats,
    "docs/metrics.md": pages.metrics,
    "docs/signatures.md": pages.signatures,
}
WITH_BLOCKS = (
    "README.md",
    "docs/analyze.md",
    "docs/calibrate.md",
    "docs/compare.md",
    "docs/monitor.md",
    "docs/themes.md",
)
_BLOCK = re.compile(r"(<!-- (?P<kind>table|output):(?P<name>[\w-]+) -->\n).*?(<!-- /(?P=kind) -->)", re.DOTALL)
_TABLES: Mapping[str, Callable[[], str]] = {
    "keys": screen_pages.keys_table,
    "screen-commands": screen_pages.screen_commands_table,
    "pane-keys": screen_pages.pane_keys_table,
    "short-keys": screen_pages.short_keys_table,
    "signs": screen_pages.signs_table,
    "styles": pages.styles_table,
    "themes": pages.themes_table,
}
_COMMANDS: Mapping[str, tuple[str, ...]] = {
    "analyze": ("analyze", "demo-run"),
    "calibrate": ("calibrate", "good-run"),
    "compare": ("compare", "before", "after"),
    "explain-formats": ("analyze", "demo-run", "--explain-formats"),
}
_RUNS: Mapping[str, tuple[str, ...]] = {
    "after": ("--fixed",),
    "before": (),
    "demo-run": (),
    "good-run": ("--scenario", "healthy"),
}
"""The built-in runs that the commands are about."""
_ENDS = {
    "calibrate": "[band.dur_ms]",
}
"""What the line begins with at which the output is cut off."""


def demo_output(name: str) -> str:
    """What a command prints about the demo run, with the line that was typed."""
    arguments = _COMMANDS[name]
    python = [sys.executable, "-m"]
    env = {**os.environ, "COLUMNS": "80", "PERFMON_CONFIG": "", "PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryDirectory() as folder:
        env["XDG_CONFIG_HOME"] = folder
        for run in set(arguments) & set(_RUNS):
            made = [*python, "perfmon.demo", run, *_RUNS[run]]
            subprocess.run(made, cwd=folder, env=env, check=True, stdout=subprocess.DEVNULL)
        done = subprocess.run(
            [*python, "perfmon", *arguments], cwd=folder, env=env, check=True, capture_output=True, encoding="utf-8"
        )
    lines = done.stdout.rstrip("\n").split("\n")
    if name in _ENDS:
        end = next(at for at, line in enumerate(lines) if line.startswith(_ENDS[name]))
        lines = [*lines[:end], "…"]
    return pages.block([f"$ perfmon {' '.join(arguments)}", *lines])


def with_blocks(text: str) -> str:
    """`text` with its blocks made again."""

    def fresh(match: re.Match[str]) -> str:
        make = _TABLES[match["name"]] if match["kind"] == "table" else lambda: demo_output(match["name"])
        return f"{match[1]}{make()}\n{match[4]}"

    return _BLOCK.sub(fresh, text)


def expected() -> dict[Path, str]:
    """Every page that is generated, wholly or in part, as it should be."""
    whole = {ROOT / name: make() for name, make in PAGES.items()}
    return whole | {ROOT / name: with_blocks((ROOT / name).read_text(encoding="utf-8")) for name in WITH_BLOCKS}


def main(arguments: list[str]) -> int:
    """Writes what has drifted, or with --check only names it and returns 1."""
    drifted = {p: text for p, text in expected().items() if not p.exists() or p.read_text(encoding="utf-8") != text}
    for path, text in drifted.items():
        print(path.relative_to(ROOT))
        if "--check" not in arguments:
            path.write_text(text, encoding="utf-8")
    return 1 if drifted and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
