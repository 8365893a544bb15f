"""`perfmon profile --engine ray` on a real Ray head: the local result, and one line for a file that no node sees."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import ray_head
from traces import starved, write

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(not ray_head.AVAILABLE, reason="ray is not installed"),
]
MAIN = "import sys; from perfmon.cli import main; sys.exit(main(sys.argv[1:]))"


def run(head: ray_head.Head, folder: Path, *words: str) -> tuple[int, str, str]:
    """(exit code, output, messages) of `perfmon profile` in a folder."""
    done = subprocess.run(
        [sys.executable, "-c", MAIN, "profile", *words],
        cwd=folder, env=head.environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def test_traces_on_a_real_cluster(tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    for rank in range(5):
        write(tmp_path / "traces" / f"rank{rank}.json.gz", starved(), distributedInfo={"rank": rank})
    (tmp_path / "traces" / "broken.json").write_text("{}")
    with ray_head.head() as head:
        local = run(head, tmp_path, "traces", "--json")
        assert run(head, tmp_path, "traces", "--json", "--engine", "ray") == local
        document = json.loads(local[1])
        assert [gpu["rank"] for gpu in document["gpus"]] == [0, 1, 2, 3, 4]
        assert document["findings"][0]["signature"] == "data-starved"
        assert re.search("no trace events", " ".join(document["notes"]))
        # A path that is another one in each process.
        code, out, err = run(head, tmp_path, "/proc/self/cwd/traces", "--engine", "ray")
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert re.search(r"Ray node \S+ does not see /proc/self/cwd/traces/\S+", err)


def test_a_cluster_that_wants_a_token_says_so(tmp_path: Path) -> None:
    write(tmp_path / "rank0.json", starved())
    with ray_head.head(token="a" * 40) as head:
        code, out, err = run(head, tmp_path, "rank0.json", "--engine", "ray")
    assert (code, out) == (3, "")
    assert re.search(r"perfmon: \S+: the Ray cluster requires authentication, and got no valid token", err)
