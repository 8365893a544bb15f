"""`perfmon calibrate` and `--baseline auto` from the command line, and in a monitor."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perfmon.cli import main
from perfmon.core.config import AUTO, load_config
from perfmon.core.errors import DataFileError, ExitCode
from perfmon.demo.output import write_demo
from perfmon.rules.bands import load_bands

Output = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A healthy run, and one with a bottleneck."""
    folder = tmp_path_factory.mktemp("runs")
    write_demo(folder / "good", "healthy")
    write_demo(folder / "bad", "slow-weight-load")
    return folder


@pytest.fixture(autouse=True)
def here(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both under short names, and no settings of whoever runs the tests."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("PERFMON_CONFIG", raising=False)
    monkeypatch.delenv("PERFMON_DEBUG", raising=False)
    monkeypatch.chdir(tmp_path)
    for path in runs.iterdir():
        Path(path.name).symlink_to(path)


def test_the_limits_of_a_healthy_run_call_it_healthy_and_say_whose_they_are(capsys: Output) -> None:
    assert main(["calibrate", "good", "-o", "mine.toml"]) == ExitCode.DONE
    assert capsys.readouterr().err == "perfmon: wrote thresholds of 17 metrics to mine.toml\n"
    assert main(["analyze", "good", "--bands", "mine.toml", "--fail-on", "warning", "--json"]) == ExitCode.DONE
    rpc = json.loads(capsys.readouterr().out)["metrics"]["rpc_ms"]
    assert rpc["limits"]["from"] == "calibrated from good, n=15"
    assert rpc["limits"]["good"] < 2000
    main(["analyze", "good", "--bands", "mine.toml"])
    assert "thresholds calibrated from good: " in capsys.readouterr().out


def test_what_is_learned_does_not_depend_on_what_the_run_taught_on_the_way(capsys: Output) -> None:
    assert main(["calibrate", "good"]) == ExitCode.DONE
    result = capsys.readouterr().out
    Path("perfmon.toml").write_text('baseline = "auto"\n')
    assert main(["calibrate", "good"]) == ExitCode.DONE
    assert capsys.readouterr().out == result


def test_other_runs_are_judged_by_them() -> None:
    main(["calibrate", "good", "-o", "mine.toml"])
    assert main(["analyze", "bad", "--bands", "mine.toml", "--fail-on", "critical"]) == ExitCode.FOUND


def test_what_somebody_calls_healthy_is_healthy_but_it_is_said(capsys: Output) -> None:
    main(["calibrate", "bad", "-o", "mine.toml"])
    assert "this run has findings (slow-weight-load)" in capsys.readouterr().err
    assert main(["analyze", "bad", "--bands", "mine.toml", "--fail-on", "warning"]) == ExitCode.DONE


def test_without_a_file_the_limits_are_data_on_stdout(capsys: Output) -> None:
    assert main(["calibrate", "good"]) == ExitCode.DONE
    out, err = capsys.readouterr()
    Path("mine.toml").write_text(out)
    assert load_bands([Path("mine.toml")]).table["rpc_ms"].origin == "calibrated from good, n=15"
    assert err == ""


def test_the_file_says_when_the_run_was(capsys: Output) -> None:
    lines = [f"2026-08-21 10:00:{at:02d} [ckpt] wait.done target_step={at} wait_ms=12.0" for at in range(12)]
    Path("dated.log").write_text("\n".join(lines))
    main(["calibrate", "dated.log"])
    assert 'origin = "calibrated from dated.log of 2026-08-21, n=12"' in capsys.readouterr().out


@pytest.mark.parametrize("argv", [["gone"], ["short.log"], ["good", "-o", "gone/mine.toml"], ["good", "--since", "x"]])
def test_bad_input_is_one_line(argv: list[str], capsys: Output) -> None:
    Path("short.log").write_text("[ckpt] wait.done target_step=43 wait_ms=12.1\n")
    assert main(["calibrate", *argv]) == ExitCode.USAGE
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "unexpected" not in err


def test_the_run_that_is_learned_from_is_not_overwritten(capsys: Output) -> None:
    lines = [f"[ckpt] wait.done target_step={at} wait_ms=12.0" for at in range(12)]
    Path("run.log").write_text("\n".join(lines))
    assert main(["calibrate", "run.log", "-o", "run.log"]) == ExitCode.USAGE
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert Path("run.log").read_text() == "\n".join(lines)
    main(["calibrate", "run.log", "-o", "mine.toml"])
    assert Path("mine.toml").read_text().splitlines()[0].endswith(", 1 log.")
    assert capsys.readouterr().err == "perfmon: wrote thresholds of 1 metric to mine.toml\n"


def _waits(name: str, wait_ms: float, trunc_pct: float) -> None:
    result = "[ckpt] wait.done target_step={0} wait_ms={1}\n[rollout] trunc_pct={2} current_step={0} ckpt_step={0}\n"
    Path(name).write_text("".join(result.format(at, wait_ms, trunc_pct) for at in range(12)))


def test_a_calibration_is_not_measured_by_the_one_before() -> None:
    _waits("wild.log", 4000.0, 40.0)
    _waits("calm.log", 700.0, 2.0)
    for log, bands in (("wild.log", "wild.toml"), ("calm.log", "calm.toml")):
        assert main(["calibrate", log, "-o", bands]) == ExitCode.DONE
    for log in ("calm.log", "wild.log"):
        name = Path(log).stem
        for older in ("calm.toml", "wild.toml"):
            assert main(["calibrate", log, "--bands", older, "-o", "new.toml"]) == ExitCode.DONE
            assert Path("new.toml").read_text() == Path(f"{name}.toml").read_text()


def test_limits_that_hold_already_are_no_lack_of_samples(capsys: Output) -> None:
    lines = [f"[rollout] trunc_pct=2.0 current_step={at} ckpt_step={at}\n" for at in range(12)]
    Path("calm.log").write_text("".join(lines))
    assert main(["calibrate", "calm.log", "-o", "mine.toml"]) == ExitCode.DONE
    err = capsys.readouterr().err
    assert "nothing to learn, the thresholds already fit: trunc_pct" in err
    assert "wrote thresholds of 0 metrics to mine.toml" in err
    assert main(["analyze", "calm.log", "--bands", "mine.toml"]) == ExitCode.DONE


# --- limits from the run's own start ----------------------------------------------------------------------------------
@pytest.mark.parametrize("place", ["option", "settings"])
def test_the_run_judges_itself_by_its_start(place: str, capsys: Output) -> None:
    Path("perfmon.toml").write_text('baseline = "auto"' if place == "settings" else "")
    options = ["--baseline", "auto"] if place == "option" else []
    assert main(["analyze", "good", "--fail-on", "warning", *options]) == ExitCode.DONE
    out, err = capsys.readouterr()
    assert "thresholds learned from the first 10m 00s of this run: " in out
    assert err == ""


def test_a_run_that_is_bad_at_once_keeps_its_finding_and_is_told(capsys: Output) -> None:
    assert main(["analyze", "bad", "--fail-on", "critical", "--baseline", "auto"]) == ExitCode.FOUND
    out, err = capsys.readouterr()
    assert "Slow weight load" in out
    assert "--baseline auto: the run does not start healthy (slow-weight-load): nothing learned" in err


def test_a_run_that_teaches_nothing_says_why(capsys: Output) -> None:
    lines = [f"2026-03-02 08:{at // 6:02}:{at % 6}0 INFO [ckpt] write.done step={at} write_ms=90.0" for at in range(60)]
    result = {
        "short.log": (lines[:20], "the run is shorter than 5m 00s, or has no timestamps: nothing is learned"),
        "few.log": (lines[::9], "nothing learned from the first 5m 00s: no metric has 10 samples"),
    }
    for name, (held, message) in result.items():
        Path(name).write_text("\n".join(held) + "\n")
        assert main(["analyze", name, "--baseline", "auto"]) == ExitCode.DONE
        assert capsys.readouterr().err == f"perfmon: --baseline auto: {message}\n"


def test_a_wrong_baseline_names_file_and_key() -> None:
    Path("perfmon.toml").write_text('baseline = "automatic"')
    with pytest.raises(DataFileError, match=r"perfmon\.toml: baseline: expected"):
        load_config()
    Path("perfmon.toml").write_text('baseline = "auto"')
    assert load_config().baseline == AUTO
