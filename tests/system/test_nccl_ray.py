"""`perfmon nccl --engine ray` on a real Ray head: the local result, and one line for what cannot work."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import ray_head

from lab.nccl_logs import Faults, Plan, write

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(not ray_head.AVAILABLE, reason="ray is not installed"),
]
pytest.importorskip("duckdb", reason="needs DuckDB (pip install 'perfmon-tui[nccl]')")

MAIN = "import sys; from perfmon.cli import main; sys.exit(main(sys.argv[1:]))"


def run(head: ray_head.Head, folder: Path, *words: str, first: str = "") -> tuple[int, str, str]:
    """(exit code, output, messages) of `perfmon nccl` in a folder; `first` is run before it."""
    command = [sys.executable, "-c", f"{first}\n{MAIN}", "nccl", *words]
    done = subprocess.run(
        command, cwd=folder, env=head.environment, capture_output=True, text=True, timeout=300, check=False
    )
    return done.returncode, done.stdout, done.stderr


def test_a_real_cluster(tmp_path: Path) -> None:
    """One after the other: a head needs most of a small machine."""
    write(tmp_path / "logs", Plan(nodes=4, gpus=8, steps=20, layers=4, form="4.3", faults=Faults(slow_rank=13)))
    file = min((tmp_path / "logs").iterdir())
    file.write_bytes(file.read_bytes() + b'{"header":{"id":"' + b"x" * (9 << 20) + b'"}}\nEpoch 1\n')
    with ray_head.head() as head:
        results_are_those_of_one_host(head, tmp_path)
        what_cannot_work_is_one_line(head, tmp_path)


def results_are_those_of_one_host(head: ray_head.Head, folder: Path) -> None:
    local = run(head, folder, "logs", "--json")
    assert run(head, folder, "logs", "--json", "--engine", "ray") == local
    assert run(head, folder, "logs", "--json", "--engine", f"ray={head.environment['RAY_ADDRESS']}") == local
    document = json.loads(local[1])
    assert [finding["rank"] for finding in document["findings"]] == [13]
    assert set(document["lost"]) == {"too long", "not a record"}


def what_cannot_work_is_one_line(head: ray_head.Head, folder: Path) -> None:
    nobody, other = f"127.0.0.1:{ray_head.free_port()}", f"127.0.0.1:{head.dashboard}"
    unseen = "/proc/self/cwd/logs"  # a path that is another one in each process
    cases = [
        (["logs", "--engine", f"ray={nobody}"], "", 3, f"{nobody}: no Ray cluster at this address: Connection refused"),
        (["logs", "--engine", f"ray={other}"], "", 3, f"{other}: no Ray cluster at this address: another service"),
        ([unseen, "--engine", "ray"], "", 2, rf"Ray node \S+ does not see {unseen}/\S+ \(put the files on a file sys"),
        (
            ["logs", "--engine", "ray"],
            "import perfmon._version as v; v.__version__ = '9.9'",
            2,
            r"has perfmon \S+, here",
        ),
        (["logs", "--engine", "ray"], "import ray; ray.__version__ = '1.0'", 2, "cluster has other versions: Ray "),
    ]
    for words, first, code, message in cases:
        done, out, err = run(head, folder, *words, first=first)
        assert (done, out, err.count("\n")) == (code, "", 1), err
        assert re.search(message, err), err
