"""Genuine dumps, made anew: three Gloo processes on the CPU hang, and the rank that is behind is named.

Needs torch 2.8 or newer in an interpreter: this one, or that of PERFMON_TORCH_PYTHON.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from perfmon.hangs import Answer, judge, read_dumps

from .test_dumps import BEHIND

SCRIPT = Path(__file__).with_name("gloo_rank.py")
PYTHON = os.environ.get("PERFMON_TORCH_PYTHON", sys.executable)
RANKS = 3

pytestmark = [pytest.mark.slow]


def has_torch() -> bool:
    """Whether the interpreter has a torch that records Gloo."""
    code = "import torch; assert hasattr(torch._C._distributed_c10d, '_dump_fr_trace')"
    return subprocess.run([PYTHON, "-c", code], capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="module")
def _torch() -> None:
    if not has_torch():
        pytest.skip("torch is no dependency, and not installed (PERFMON_TORCH_PYTHON names an interpreter with it)")


@pytest.mark.usefixtures("_torch")
@pytest.mark.parametrize("fault", sorted(BEHIND))
def test_dumps_of_real_processes(fault: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {
        **os.environ, "WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
        "TORCH_FR_BUFFER_SIZE": "2000", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    processes = [
        subprocess.Popen(
            [PYTHON, str(SCRIPT), fault, str(tmp_path)],
            env={**environment, "RANK": str(rank)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for rank in range(RANKS)
    ]
    try:
        for process in processes:
            process.wait(120)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    dumps = read_dumps(tmp_path)
    verdict, _ = judge(dumps.evidence())
    assert (dumps.files, dumps.notes) == (2 * RANKS, [])
    assert (verdict.answer, verdict.ranks) == (Answer.NAMED, (BEHIND[fault],))
