"""`perfmon rules`: browse, explain, check and test signatures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perfmon.cli import main
from perfmon.core.errors import ExitCode
from perfmon.rules.signatures import BUILTIN

Output = pytest.CaptureFixture[str]
BUILT_IN = sorted(path.stem for path in BUILTIN.glob("*.toml"))


@pytest.fixture(autouse=True)
def no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The `signatures` folder of a user who has no other settings."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("PERFMON_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "perfmon" / "signatures"
    folder.mkdir(parents=True)
    return folder


def broken_copy(folder: Path, old: str, new: str) -> Path:
    """A user's copy of a built-in signature with something changed."""
    text = (BUILTIN / "checkpoint-stall.toml").read_text()
    assert old in text
    copy = folder / "copy.toml"
    copy.write_text(text.replace(old, new))
    return copy


def test_the_list_has_every_signature(capsys: Output) -> None:
    assert main(["rules", "list"]) == ExitCode.DONE
    assert sorted(line.split()[0] for line in capsys.readouterr().out.splitlines()) == BUILT_IN


def test_the_list_as_json(capsys: Output) -> None:
    assert main(["rules", "list", "--json"]) == ExitCode.DONE
    rows = {row["id"]: row for row in json.loads(capsys.readouterr().out)}
    assert sorted(rows) == BUILT_IN
    assert rows["frontend-queue"]["severity"] == "critical"


def test_a_users_signature_replaces_the_built_in_one(no_settings: Path, capsys: Output) -> None:
    broken_copy(no_settings, 'title = "Checkpoint stall"', 'title = "Ours"')
    main(["rules", "list"])
    assert "Ours" in capsys.readouterr().out


def test_a_signature_is_explained(capsys: Output) -> None:
    assert main(["rules", "explain", "checkpoint-stall"]) == ExitCode.DONE
    out = capsys.readouterr().out
    assert "Checkpoint stall" in out
    assert "NVMe" in out


@pytest.mark.parametrize("action", ["explain", "test"])
def test_an_unknown_signature_gets_the_nearest(action: str, capsys: Output) -> None:
    assert main(["rules", action, "frontend-que"]) == ExitCode.USAGE
    line = "perfmon: frontend-que: no such signature (did you mean frontend-queue?)\n"
    assert capsys.readouterr() == ("", line)


def test_the_built_in_files_have_no_mistakes(capsys: Output) -> None:
    assert main(["rules", "check"]) == ExitCode.DONE
    assert capsys.readouterr().out == ""


def test_a_mistake_is_named_with_file_and_key(no_settings: Path, capsys: Output) -> None:
    copy = broken_copy(no_settings, 'type = "compare"', 'type = "treshold"')
    assert main(["rules", "check", str(copy)]) == ExitCode.FOUND
    out = capsys.readouterr().out
    assert out.startswith(f"{copy}: condition[0].type: expected one of")
    assert main(["rules", "check"]) == ExitCode.FOUND


def test_examples_are_run(capsys: Output) -> None:
    assert main(["rules", "test", "checkpoint-stall", "--json"]) == ExitCode.DONE
    results = json.loads(capsys.readouterr().out)
    assert len(results) >= 2
    assert all(result["ok"] for result in results)


def test_an_example_that_does_not_fire_fails(no_settings: Path, capsys: Output) -> None:
    broken_copy(no_settings, "wait_ms=5432.1", "wait_ms=2.1")
    assert main(["rules", "test", "checkpoint-stall"]) == ExitCode.FOUND
    assert "FAILED  checkpoint-stall: 5.4 s wait" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[queue_ms]\ngood = 1\ncritical = 2\n", "queue_ms: expected [band.queue_ms]"),
        (
            "schema = 1\n[band.queue_ms]\ngood = 1\ncritcal = 2\n",
            "band.queue_ms.critcal: unknown key, expected one of critical",
        ),
        ('[[pattern]]\nid = "x"\n', "file: a format pack; `perfmon analyze --formats DIR` checks those"),
        ('[[criterion]]\nname = "x"\n', "file: criteria; `perfmon compare --criteria FILE` checks those"),
        ("memory_mb = 12\n", "file: of no known kind, expected a signature (id, title, "),
        ('title = "x"\nkinds = 1\n', "kinds: unknown key, expected one of advice"),
    ],
)
def test_a_file_is_checked_as_what_it_looks_like(text: str, message: str, tmp_path: Path, capsys: Output) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    assert main(["rules", "check", str(file)]) == ExitCode.FOUND
    out = capsys.readouterr().out
    assert out.startswith(f"{file}: {message}")
    assert out.count("\n") == 1


def test_a_file_that_is_not_there_is_wrong_usage(capsys: Output) -> None:
    assert main(["rules", "check", "nope.toml"]) == ExitCode.USAGE
    assert capsys.readouterr() == ("", "perfmon: nope.toml: no such file (name a *.toml file)\n")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('id = "checkpoint-stall"', 'id = "a stall"', "id: expected a word of letters, digits, - and _"),
        ('title = "Checkpoint stall"', 'title = "stall\\u001b[2J"', "title: expected a line of text"),
    ],
)
def test_names_that_cannot_be_used_everywhere_are_refused(
    old: str, new: str, message: str, tmp_path: Path, capsys: Output
) -> None:
    copy = broken_copy(tmp_path, old, new)
    assert main(["rules", "check", str(copy)]) == ExitCode.FOUND
    assert capsys.readouterr().out == f"{copy}: {message}\n"


def test_an_analysis_says_what_a_signature_of_ones_own_asks_for_in_vain(tmp_path: Path, capsys: Output) -> None:
    mine, log = tmp_path / "mine", tmp_path / "run.log"
    mine.mkdir()
    copy = broken_copy(mine, 'metric = "wait_ms"\n\n', 'metric = "wait_mss"\n\n')
    log.write_text("[ckpt] write.done step=42 write_ms=823.4\n")
    assert main(["analyze", str(log), "--signatures", str(mine)]) == ExitCode.DONE
    outcome = f"perfmon: {copy}: on[1].metric: wait_mss: no format reads it, did you mean wait_ms?\n"
    assert capsys.readouterr().err == outcome
