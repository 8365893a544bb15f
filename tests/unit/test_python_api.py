"""The Python API, and the examples of its page."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import perfmon
from perfmon.core.errors import InputError, UsageError

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
STEPS = "".join(f"2026-03-02 10:{at // 60:02}:{at % 60:02} step {at} | loss {3 - at / 100:.4f}\n" for at in range(60))
DEATH = """Traceback (most recent call last):
  File "train.py", line 40, in main
    loss.backward()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB.
"""


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "train.log").write_text(STEPS + DEATH)
    return folder


def test_examples_of_the_page_run(
    logs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(logs.parent)
    names: dict[str, object] = {}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)  # noqa: S102
    shown = capsys.readouterr().out
    assert "failed 59 s" in shown
    assert "out-of-memory" in shown
    assert "train.log:64: torch.OutOfMemoryError" in shown
    assert re.search(r"^loss +p50 2\.7", shown, re.MULTILINE)
    assert "# " in shown


def test_paths_of_any_kind_give_the_same(logs: Path) -> None:
    path = logs / "train.log"
    given = [str(logs), path, [path], (str(path),), iter([path])]
    assert {perfmon.analyze(one).summary for one in given} == {perfmon.analyze(logs).summary}  # type: ignore[arg-type]


def test_the_document_is_that_of_the_command_line(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(logs.parent)
    command = [sys.executable, "-m", "perfmon", "analyze", "logs", "--json"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True)
    document = json.loads(json.dumps(perfmon.to_dict(perfmon.analyze("logs"))))
    assert document == json.loads(printed.stdout)


def test_what_is_judged_can_be_limited(logs: Path) -> None:
    assert perfmon.analyze(logs, since="20s").run.wall_s == pytest.approx(20, abs=1)


def test_wrong_paths_and_times_are_one_clear_line(logs: Path) -> None:
    with pytest.raises(InputError, match=r"nothing\.log"):
        perfmon.analyze(logs / "nothing.log")
    with pytest.raises(UsageError, match="no logs"):
        perfmon.analyze([])
    with pytest.raises(UsageError, match="yesterday"):
        perfmon.analyze(logs, since="yesterday")


def test_importing_it_is_light() -> None:
    code = "import sys, perfmon; print(sorted(m for m in sys.modules if m.startswith('perfmon')))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "['perfmon', 'perfmon._version']"
    assert perfmon.Diagnosis.__name__
