"""What our own options do: a system test that is skipped is a failure, and so is one that takes too much memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

CONFTEST = Path(__file__).parents[1] / "conftest.py"
INI = "[pytest]\nmarkers = system: x\nasyncio_default_fixture_loop_scope = function\n"


@pytest.mark.parametrize(
    ("mark", "option", "code"),
    [
        ("@pytest.mark.system\n@pytest.mark.skipif(True, reason='no sshd')", "--require-system", 1),
        ("@pytest.mark.system\n@pytest.mark.skipif(True, reason='no sshd')", "-q", 0),
        ("@pytest.mark.skipif(True, reason='other')", "--require-system", 0),
        ("@pytest.mark.system\n@pytest.mark.xfail(reason='known')", "--require-system", 0),
    ],
)
def test_a_skip_of_a_system_test_fails_when_asked(tmp_path: Path, mark: str, option: str, code: int) -> None:
    done = _run(tmp_path, f"import pytest\n{mark}\ndef test_it():\n    assert False\n", option)
    assert done.returncode == code, done.stdout


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
def test_the_test_in_which_a_process_grows_too_large_fails(tmp_path: Path) -> None:
    tests = "def test_small(): pass\ndef test_large(): b'x' * (256 << 20)\ndef test_after(): pass\n"
    done = _run(tmp_path, tests, "--max-memory-mb=256")
    assert done.returncode == 1, done.stdout
    assert "--max-memory-mb=256: the process of test_one.py::test_large has taken" in done.stdout
    assert "1 failed, 2 passed" in done.stdout


def _run(folder: Path, tests: str, option: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(CONFTEST.read_text())
    (folder / "pytest.ini").write_text(INI)
    (folder / "test_one.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", option, "-p", "no:cacheprovider", "test_one.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
