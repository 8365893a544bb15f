"""`perfmon compare` from the command line: what goes to stdout, what to files, and what the shell is told."""

from __future__ import annotations

import gzip
import json
import re
import tarfile
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from perfmon.cli import main
from perfmon.core.errors import ExitCode
from perfmon.demo.output import write_demo

Output = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a front-end queue and the same run mended."""
    folder = tmp_path_factory.mktemp("runs")
    write_demo(folder / "before")
    write_demo(folder / "after", fixed=True)
    with tarfile.open(folder / "after.tar.gz", "w:gz") as bundle:
        bundle.add(folder / "after", "after")
    return folder


@pytest.fixture(autouse=True)
def here(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both runs under short names, and no settings of whoever runs the tests."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("PERFMON_CONFIG", raising=False)
    monkeypatch.delenv("PERFMON_DEBUG", raising=False)
    monkeypatch.chdir(tmp_path)
    for path in runs.iterdir():
        Path(path.name).symlink_to(path)


def test_the_table_and_the_verdict_go_to_stdout(capsys: Output) -> None:
    assert main(["compare", "before", "after"]) == ExitCode.DONE
    out, err = capsys.readouterr()
    assert "FIXED  Front-end queue saturation is gone (28 % of the time lost before);" in out
    assert re.search(r"^  queue_ms +11.4 s +20 ms +−99.8 % +−12.6 s … −9.5 s +better$", out, re.MULTILINE)
    assert "✓ generation is no slower" in out
    assert err == ""
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("before", "after", "fail_on", "code"),
    [
        ("before", "after", "regression", ExitCode.DONE),
        ("after", "before", "regression", ExitCode.FOUND),
        ("before", "before", "regression", ExitCode.DONE),
        ("before", "before", "criteria", ExitCode.FOUND),
        ("before", "after.tar.gz", "criteria", ExitCode.DONE),
    ],
)
def test_fail_on_tells_the_shell(before: str, after: str, fail_on: str, code: ExitCode) -> None:
    assert main(["compare", before, after, "--fail-on", fail_on]) == code


def test_json_is_the_document_alone(capsys: Output) -> None:
    assert main(["compare", "before", "after", "--json"]) == ExitCode.DONE
    out, err = capsys.readouterr()
    result = json.loads(out)
    queue = result["metrics"]["queue_ms"]
    assert (result["schema"], result["verdict"], err) == (1, "fixed", "")
    assert [found["signature"] for found in result["findings"]["gone"]] == ["frontend-queue"]
    assert (result["findings"]["new"], result["findings"]["still"]) == ([], [])
    assert (queue["verdict"], queue["before"]["band"], queue["after"]["band"]) == ("better", "critical", "good")
    assert queue["ci95"][0] < queue["change"] < queue["ci95"][1] < -9000
    assert {criterion["ok"] for criterion in result["criteria"]} == {True}
    assert result["metrics"]["inflight"]["verdict"] is None


def test_a_page_is_written_where_it_was_asked_for(capsys: Output) -> None:
    assert main(["compare", "before", "after", "-o", "page.md"]) == ExitCode.DONE
    out, err = capsys.readouterr()
    assert (out, err) == ("", "perfmon: fixed; wrote page.md\n")
    assert "| `queue_ms` | 11.4 s | 20 ms | −99.8 % |" in Path("page.md").read_text()


def test_the_same_logs_give_the_same_document(capsys: Output) -> None:
    documents = []
    for _ in range(2):
        main(["compare", "before", "after", "--json"])
        documents.append(capsys.readouterr().out)
    assert documents[0] == documents[1]


@pytest.mark.parametrize("place", ["option", "settings"])
def test_ones_own_criteria(place: str, capsys: Output) -> None:
    Path("mine.toml").write_text('schema = 1\n[[criterion]]\nname = "idle"\nmetric = "inflight"\nbelow = 5\n')
    Path("perfmon.toml").write_text('criteria = "mine.toml"' if place == "settings" else "")
    options = ["--criteria", "mine.toml"] if place == "option" else []
    assert main(["compare", "before", "after", "--fail-on", "criteria", *options]) == ExitCode.FOUND
    assert "✗ idle: inflight mean 128" in capsys.readouterr().out


def test_a_criterion_that_no_run_can_meet_is_said(capsys: Output) -> None:
    Path("mine.toml").write_text('schema = 1\n[[criterion]]\nname = "a"\nmetric = ["quee_ms", "rpc_ms"]\nbelow = 5\n')
    main(["compare", "before", "after", "--criteria", "mine.toml"])
    result = "perfmon: mine.toml: criterion[0].metric: quee_ms: no format reads it, did you mean queue_ms?\n"
    assert capsys.readouterr().err == result


def test_what_a_run_lost_is_told_beside_its_figures(capsys: Output) -> None:
    for name in ("before", "after"):
        whole = gzip.compress((Path(name) / "orchestrator.log").read_bytes())
        Path(f"{name}.log.gz").write_bytes(whole[: len(whole) * 9 // 10] if name == "after" else whole)
    main(["compare", "before.log.gz", "after.log.gz", "--json"])
    notes = [note for note in json.loads(capsys.readouterr().out)["notes"] if "after.log.gz" in note]
    assert [note for note in notes if re.fullmatch(r"after: after\.log\.gz: truncated after \d+ bytes, .*", note)]


def test_the_beginning_of_both_can_be_left_out(capsys: Output) -> None:
    main(["compare", "before", "after", "--skip", "5m", "--json"])
    result = json.loads(capsys.readouterr().out)
    assert result["metrics"]["queue_ms"]["before"]["count"] < 10
    assert result["runs"]["after"]["wall_s"] < 310


def test_the_beginning_of_both_alone_can_be_looked_at(capsys: Output) -> None:
    main(["compare", "before", "after", "--skip", "1m", "--first", "3m", "--json"])
    result = json.loads(capsys.readouterr().out)
    assert [result["runs"][side]["wall_s"] for side in ("before", "after")] == pytest.approx([180.0, 180.0], abs=1.0)


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["gone", "after"], "gone"),
        (["before", "gone"], "gone"),
        (["-", "-"], "stdin"),
        (["before", "saved.json"], "saved.json: a saved diagnosis has no samples"),
        (["before", "after", "--criteria", "gone.toml"], "gone.toml"),
        (["before", "after", "-o", "gone/page.md"], "gone/page.md"),
        (["before", "after", "--skip", "soon"], "soon"),
        (["before", "after", "--skip", "2h"], "before: its first 2h 00m cannot be left out"),
        (["before", "after", "--first", "0"], "--first"),
        (["undated.log", "after", "--first", "2h"], "undated.log: its first 2h 00m cannot be selected"),
    ],
)
def test_bad_input_is_one_line_that_names_it(argv: list[str], named: str, capsys: Output) -> None:
    main(["analyze", "before", "--json"])
    Path("saved.json").write_text(capsys.readouterr().out)
    Path("undated.log").write_text("[ckpt] write.done step=1 write_ms=5.0\n")
    assert main(["compare", *argv]) == ExitCode.USAGE
    out, err = capsys.readouterr()
    assert out == ""
    assert named in err
    assert "unexpected" not in err
    assert err.count("\n") == 1


def _steps(name: str, seconds: float) -> None:
    """A run of 200 steps of about so long."""
    begin, clock, lines = datetime(2026, 3, 2, 8, 0), 0.0, []
    for step in range(200):
        took = seconds * (1.0 + 0.02 * (step * 7 % 11))
        clock += took
        at = (begin + timedelta(seconds=clock)).isoformat(" ", "milliseconds")
        lines.append(f"{at} INFO Step {step} | Time: {took:.2f}s | Loss: 0.1 | Throughput: {3000 / took:.0f} tokens/s")
    Path(name).write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("learned", ["baseline", "calibrated"])
def test_limits_that_were_learned_hide_no_change(learned: str, capsys: Output) -> None:
    _steps("quick.log", 3.0)
    _steps("slow.log", 4.2)
    if learned == "calibrated":
        assert main(["calibrate", "quick.log", "-o", "perfmon-bands.toml"]) == ExitCode.DONE
        assert main(["analyze", "slow.log", "--bands", "perfmon-bands.toml", "--fail-on", "warning"]) == ExitCode.DONE
    Path("perfmon.toml").write_text(
        'baseline = "auto"\n' if learned == "baseline" else 'band_files = ["perfmon-bands.toml"]\n'
    )
    capsys.readouterr()
    assert main(["compare", "quick.log", "slow.log", "--fail-on", "regression"]) == ExitCode.FOUND
    assert "trainer_step_s mean 3.3 s → 4.6 s" in capsys.readouterr().out.replace("\n ", "")


@pytest.mark.parametrize("output", ["before.log", "link.log", "logs/after.log"])
def test_no_log_that_was_read_is_overwritten(output: str, capsys: Output) -> None:
    Path("logs").mkdir()
    for name in ("before.log", "logs/after.log"):
        Path(name).write_text("[ckpt] write.done step=1 write_ms=5.0\n")
    Path("link.log").symlink_to("before.log")
    text = Path(output).read_text()
    assert main(["compare", "before.log", "logs", "-o", output]) == ExitCode.USAGE
    out, err = capsys.readouterr()
    assert (out, err.count("\n"), output in err) == ("", 1, True)
    assert Path(output).read_text() == text


@pytest.mark.parametrize(
    ("requests", "message"),
    [
        ("regression", "--fail-on regression: cannot tell: "),
        ("criteria", "--fail-on criteria: 5 of 5 criteria could not be judged"),
    ],
)
def test_a_gate_that_could_judge_nothing_says_so(requests: str, message: str, capsys: Output) -> None:
    Path("junk.log").write_text("hello\n")
    assert main(["compare", "before", "junk.log", "--json", "--fail-on", requests]) == ExitCode.DONE
    out, err = capsys.readouterr()
    assert json.loads(out)["verdict"] == "cannot tell"
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("after", "requests", "code"),
    [
        ("junk.log", ["cannot-tell"], ExitCode.FOUND),
        ("junk.log", ["regression", "cannot-tell"], ExitCode.FOUND),
        ("junk.log", ["criteria", "cannot-tell"], ExitCode.FOUND),
        ("after", ["regression", "criteria", "cannot-tell"], ExitCode.DONE),
        ("before", ["criteria", "regression"], ExitCode.FOUND),
        ("before", ["regression", "cannot-tell"], ExitCode.DONE),
    ],
)
def test_a_gate_may_ask_for_several_and_that_it_can_be_told(
    after: str, requests: list[str], code: ExitCode, capsys: Output
) -> None:
    Path("junk.log").write_text("hello\n")
    gates = [word for name in requests for word in ("--fail-on", name)]
    assert main(["compare", "before", after, *gates]) == code
    assert ("cannot tell" in capsys.readouterr().err) == (after == "junk.log" and "regression" in requests)


def test_criteria_that_could_not_be_judged_are_no_passed_gate_where_that_is_asked(capsys: Output) -> None:
    Path("mine.toml").write_text('schema = 1\n[[criterion]]\nname = "a"\nmetric = "nope_ms"\nbelow = 5\n')
    gates = ["--criteria", "mine.toml", "--fail-on", "criteria"]
    assert main(["compare", "before", "after", *gates]) == ExitCode.DONE
    assert main(["compare", "before", "after", *gates, "--fail-on", "cannot-tell"]) == ExitCode.FOUND
    assert "1 of 1 criteria could not be judged" in capsys.readouterr().err


def test_a_passed_gate_names_what_may_be_worse_or_chance(capsys: Output) -> None:
    assert main(["compare", "before", "after", "--fail-on", "regression"]) == ExitCode.DONE
    err = capsys.readouterr().err
    assert err.startswith("perfmon: --fail-on regression: no significant regression; possible ones: ")
    assert err.endswith("batch_wait_s, orchestrator_step_s, trainer_step_s\n")


def test_a_gate_without_criteria_is_refused(capsys: Output) -> None:
    Path("none.toml").write_text("schema = 1\n")
    assert main(["compare", "before", "after", "--criteria", "none.toml"]) == ExitCode.DONE
    capsys.readouterr()
    command = ["compare", "before", "after", "--criteria", "none.toml", "--fail-on", "criteria"]
    assert main(command) == ExitCode.USAGE
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "none.toml has no criteria" in err


def test_logs_that_nothing_recognises_cannot_be_compared(capsys: Output) -> None:
    Path("junk.log").write_text("hello\n")
    assert main(["compare", "before", "junk.log"]) == ExitCode.DONE
    out = capsys.readouterr().out
    assert "CANNOT TELL" in out
    assert "no line of the run after was recognised" in out


def _training(path: Path, line: str, first: float, last: float, every_s: float, total: int) -> None:
    """200 steps whose loss falls from `first` to `last`."""
    begin = datetime(2026, 3, 2, 8, 0)
    path.write_text(
        "".join(
            line.format(
                time=f"{begin + timedelta(seconds=every_s * n):%Y-%m-%d %H:%M:%S}",
                n=n,
                total=total,
                loss=last + (first - last) * 0.97**n + 0.002 * (n * 7 % 11),
                s=every_s,
            )
            + "\n"
            for n in range(1, 201)
        )
    )


_PLAIN = "{time} INFO step {n}/{total} | loss: {loss:.4f} | {s:.2f} s/it"
_TITAN = "[titan] {time},118 - root - INFO - step: {n:2}  loss: {loss:7.4f}  memory: 47.36GiB(59.87%)  tps: 7,914"


@pytest.mark.parametrize(
    ("line", "first", "last", "total", "expected"),
    [
        (_PLAIN, 1.6, 1.1, 900, "IMPROVED"),
        (_PLAIN, 1.6, 1.1, 300, "IMPROVED"),  # the same job, told to run shorter
        (_PLAIN, 10.5, 5.0, 900, "IMPROVED"),  # a loss that is worse says the change was none to keep, not what ran
        (_PLAIN, 10.5, 5.0, 300, "900 and 300 steps in all; a loss of "),
        (_TITAN, 1.6, 1.1, 900, "no effect"),  # what another trainer prints of it has no pace in common
        (_TITAN, 10.5, 5.0, 900, "formats steps and torchtitan; a loss of "),
    ],
)
def test_different_jobs_are_not_compared(
    line: str, first: float, last: float, total: int, expected: str, capsys: Output
) -> None:
    _training(Path("one.log"), _PLAIN, 1.6, 1.1, 4.0, 900)
    _training(Path("other.log"), line, first, last, 2.0, total)
    assert main(["compare", "one.log", "other.log"]) == ExitCode.DONE
    out = " ".join(capsys.readouterr().out.split())
    if expected == "no effect":
        assert "different jobs" not in out
    else:
        assert expected in out
        assert ("CANNOT TELL These are different jobs" in out) is (expected != "IMPROVED")
