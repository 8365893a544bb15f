"""Something else than weight updates that stops coming: what proves those proves nothing of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from feeding import feed

from perfmon.core.config import Config
from perfmon.pipeline.session import Session

_MINE = """
schema = 1
id = "no-checkpoints"
title = "No checkpoints"
kind = "fault"
rank = 84
meaning = "A crash would cost more than was meant."
sentence = "no checkpoint for {longest}"
advice = ["Look at the trainer's disk."]

[[on]]
absence = "checkpoint-write"

[[condition]]
type = "duration"
than = "usual"
factor = 3
least_s = 60
"""


def _fires(folder: Path, writes: int) -> bool:
    (folder / "no-checkpoints.toml").write_text(_MINE)
    lines = []
    for step in range(40):
        head = f"2026-08-21 10:{step:02d}"
        lines.append(f"{head}:30 INFO [rollout] trunc_pct=2.0 current_step={step + 1} ckpt_step={step} staleness=1\n")
        lines += [f"{head}:40 INFO [ckpt] write.done step={step} write_ms=80.0\n"] if step < writes else []
    session = Session(Config(signature_dirs=(folder,)))
    feed(session, "run.log", lines)
    return any(finding.signature == "no-checkpoints" for finding in session.snapshot().findings)


def test_they_end_though_new_policies_come(tmp_path: Path) -> None:
    assert _fires(tmp_path, 10)


@pytest.mark.parametrize("writes", [0, 40])
def test_they_go_on_or_were_never_told(tmp_path: Path, writes: int) -> None:
    assert not _fires(tmp_path, writes)
