"""Where nothing may be missing, a skipped system test is a failure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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
    (tmp_path / "conftest.py").write_text(CONFTEST.read_text())
    (tmp_path / "pytest.ini").write_text(INI)
    (tmp_path / "test_one.py").write_text(f"import pytest\n{mark}\ndef test_it():\n    assert False\n")
    command = [sys.executable, "-m", "pytest", option, "-p", "no:cacheprovider", "test_one.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout
