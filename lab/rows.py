"""Rows of figures, some for each step, as prime-rl's file monitor writes them: trainer and orchestrator to one file."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path

_FILE = "metrics.jsonl"


def add_row(folder: Path, step: int, figures: Mapping[str, float]) -> None:
    """Appends a row to the file of the run in `folder`."""
    result = {name: round(value, 4) for name, value in figures.items()}
    row = json.dumps({"step": step, "time": round(time.time(), 3), **result})
    with (folder / "logs" / _FILE).open("a", encoding="utf-8") as file:
        file.write(f"{row}\n")
