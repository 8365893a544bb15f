"""Rows and lines that a container's log driver, or a logger, wrapped in JSON are read as they were printed."""

from __future__ import annotations

import json

import pytest

from perfmon.sources.formats.loader import load_packs
from perfmon.sources.scan.scanner import Scanner

SCANNER = Scanner(load_packs())
PRINTED = (
    '{"step": 12, "time": 1787300000.1, "time/step": 58.1, "time/wait_for_batch": 3.4}',
    '{"step":3,"data":{"timing_s/step":120.5,"timing_s/gen":80.1,"trainer/idle_ratio":0.7}}',
    "INFO 11-20 09:04:02 ppo_trainer.py:600] ⏰ Evaluation start time: 2026-11-20 09:04:02",
    "INFO 11-20 09:04:02 ppo_trainer.py:655] ✨ Evaluation completed in 00:03:00, global_step 10",
    "{'loss': 0.41, 'grad_norm': 0.9, 'learning_rate': 1e-06, 'epoch': 0.1, 'step_time': 12.3}",
)


def _read(line: str) -> list[object]:
    scanned = SCANNER.scan(f"{line}\n".encode())
    return [(SCANNER.pattern_names[record[0]], record[5]) for record in scanned.records if record[0] >= 0]


@pytest.mark.parametrize("line", PRINTED)
def test_in_a_record(line: str) -> None:
    result = _read(line)
    assert result
    assert _read(json.dumps({"log": f"{line}\n", "stream": "stdout", "time": "2026-11-20T09:04:02.5Z"})) == result
    assert _read(json.dumps({"timestamp": "2026-11-20T09:04:02Z", "level": "INFO", "message": line})) == result
