"""`perfmon nccl --hang`: text, Markdown and JSON, exit codes, and the dossier."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from ras_server import answer, rank, serving

from perfmon.cli import main
from perfmon.hangs.dossier import dossiers, last_lines, main_frames, processes

from .generator import make
from .test_lines import signal, timeout

GLOO = Path(__file__).parent / "gloo"


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command."""
    code = main(["nccl", "--hang", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = printed(capsys, str(GLOO / "late"))
    assert (code, err) == (0, "")
    assert "BEHIND  rank 2 has no outstanding operation and has not launched all_reduce 5" in out
    assert "all_reduce 5 in default_pg: ranks 0-1 waiting for rank 2" in out
    assert "train.py:49 in main" in " ".join(out.split())
    assert max(map(len, out.splitlines()[1:])) <= 80


def test_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = printed(capsys, str(GLOO / "operation"), "--markdown")
    assert (code, out.startswith("# Hang\n")) == (0, True)
    assert "rank 2 is in another operation at number 5 of default\\_pg" in out


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = printed(capsys, str(GLOO / "chain"), "--json")
    document = json.loads(out)
    hang = document["hang"]
    assert (code, document["schema"]) == (0, 1)
    assert (hang["answer"], hang["ranks"], hang["world"], hang["dumps"]) == ("named", [1], 3, 3)
    assert {"operation": "all_reduce", "group": "0", "sequence_number": 5}.items() <= hang["causes"][0][
        "operation"
    ].items()
    assert [row["ranks"] for row in hang["waiting"]] == [[0], [2]]
    assert hang["next_steps"]


@pytest.mark.parametrize("form", ["--json", "--markdown", "--dossier"])
def test_every_generated_hang_can_be_shown(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in range(9):
        folder = tmp_path / str(seed)
        folder.mkdir()
        for number, table in make(seed).dumps.items():
            (folder / f"trace_{number}").write_bytes(pickle.dumps(table, 2))
        code, out, err = printed(capsys, str(folder), form)
        assert (code, err) == (0, "")
        assert out


def test_dumps_and_lines_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rank 2 left no dump, and its line shows where it is."""
    for name in ("comm_lib_trace_rank_0", "comm_lib_trace_rank_1"):
        (tmp_path / name).write_bytes((GLOO / "late" / name).read_bytes())
    (tmp_path / "run.log").write_text(f"{timeout(0, 5)}\n{signal(2, 4, 4)}\n")
    code, out, _ = printed(capsys, str(tmp_path), "--json")
    hang = json.loads(out)["hang"]
    assert (code, hang["ranks"], hang["dumps"], hang["missing"]) == (0, [2], 2, [])
    assert hang["dossiers"][0]["lines"][0].startswith("[rank2]:")


@pytest.mark.parametrize(
    ("make_target", "message"),
    [
        (lambda folder: folder / "none", "no such folder"),
        (lambda folder: folder, "no flight-recorder dumps and no watchdog lines"),
        (lambda folder: write(folder / "x_0", b"\x80\x02cos\nsystem\n."), "refused: it would call os.system"),
        (lambda folder: write(folder / "trace_rank_0", b"cos\nsystem\n(S'x'\ntR."), "refused: it would call os.system"),
        (lambda folder: write(folder / "x_0", b"\x80\x02}q\x00("), "not a flight-recorder dump"),
        (lambda folder: write(folder / "y" / "x_0", b"") / "x_0", "not a folder"),
    ],
)
def test_nothing_to_read_is_one_line_and_exit_2(
    make_target: object, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert callable(make_target)
    code, out, err = printed(capsys, str(make_target(tmp_path)))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


def write(path: Path, data: bytes) -> Path:
    """The folder of a file with this content."""
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return path.parent


def test_ras_needs_consent_and_is_queried_once(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(answer([rank(at, 6 if at == 2 else 7) for at in range(4)])) as (port, received):
        code, out, err = printed(capsys, f"127.0.0.1:{port}")
        assert (code, out, received) == (2, "", [])
        assert "--yes if the job already hangs" in err
        code, out, err = printed(capsys, f"127.0.0.1:{port}", "--yes")
    assert (code, err, len(received)) == (0, "", 1)
    assert "BEHIND  rank 2 (host 10.0.0.1, pid 102, GPU 2): AllReduce 6 of 7" in out
    assert "one query: the counts show who launched less" in out


def test_no_ras_is_exit_3(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "127.0.0.1:1", "--yes")[0] == 3


def test_hang_is_required(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nccl"]) == 2
    assert "give either DIR or --jobid" in capsys.readouterr().err


def test_last_lines_of_logs_of_one_rank(tmp_path: Path) -> None:
    (tmp_path / "rank_5.log").write_text("".join(f"line {at}\n" for at in range(9)))
    (tmp_path / "3").mkdir()
    (tmp_path / "3" / "stderr.log").write_text("saving\ntoken=abcdef123456 \x1b[31mred\n")
    (tmp_path / "all.log").write_text("[rank7]: Traceback\n[rank8]: x\n[rank7]: RuntimeError: CUDA\n")
    found = {rank: tuple(line.text for line in lines) for rank, lines in last_lines(tmp_path, [3, 5, 7]).items()}
    assert found[5] == ("line 4", "line 5", "line 6", "line 7", "line 8")
    assert found[3] == ("saving", "token=*** red")
    assert found[7] == ("[rank7]: Traceback", "[rank7]: RuntimeError: CUDA")


def test_the_stack_of_a_real_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by the rank in its environment; py-spy needs ptrace, which some containers do not allow."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    script = tmp_path / "hung.py"
    script.write_text("import time\ndef wait_for_data(): time.sleep(60)\nprint('up', flush=True)\nwait_for_data()\n")
    environment = {**os.environ, "RANK": "70013", "WORLD_SIZE": "70014"}
    with subprocess.Popen([sys.executable, script], env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "up\n"
            assert processes([70013]) == {70013: (process.pid,)}
            (one,) = dossiers(tmp_path, [70013], with_stacks=True)
        finally:
            process.kill()
    assert one.pid == process.pid
    assert "ptrace" in one.note or any("wait_for_data (hung.py" in line for line in one.stack)


def test_the_main_thread_is_found_by_name_by_number_or_by_its_first_frame() -> None:
    other = ['Thread 7 (idle): "worker"', "    wait (threading.py:320)", "    run (threading.py:1)"]
    called = ("get (a/b/queue.py:171)", "load (/x/data.py:9)", "step (train.py:4)", "<module> (train.py:9)")
    frames = [f"    {one}" for one in called]
    for head in ('Thread 9 (idle): "MainThread"', "Thread 5 (active)", "Thread 0x7F (idle)"):
        text = main_frames(["Process 5: python train.py", "Python v3.11.7", *other, head, *frames])
        assert text == "get (queue.py:171) < load (data.py:9) < step (train.py:4)"
    assert main_frames(other) == main_frames([]) == ""


def test_without_consent_no_process_is_touched(tmp_path: Path) -> None:
    assert dossiers(tmp_path, [1], with_stacks=False) == []
    (one,) = dossiers(tmp_path, [999_999], with_stacks=True)
    assert one.note == "no process of this rank on this host"
