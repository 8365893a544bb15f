"""Limits that do not hold for every run: wherever a value is judged, and what a user's own file may say wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfmon.cli import main
from perfmon.clocks.alignment import align
from perfmon.core.config import Config
from perfmon.core.errors import ExitCode
from perfmon.core.model import Block
from perfmon.diagnosis.assessment import diagnose, view_of
from perfmon.diagnosis.baseline import as_toml, learn
from perfmon.diagnosis.summary import parts
from perfmon.pipeline.offline import vocabulary
from perfmon.pipeline.session import Session
from perfmon.rules.bands import LOWER, load_bands
from perfmon.rules.signatures import load_signatures
from perfmon.viewmodel import Level, MetricLane, Viewport
from perfmon.viewmodel.timeline import Now, TimelineBuilder

Output = pytest.CaptureFixture[str]
GPU = "2026-03-02 08:15:{:02d}.118 [poll] gpu host=a100-0 name=0 util_pct={} mem_used_mb=71840 mem_total_mb=81559"
UPDATE = (
    "2026-03-02 08:15:30 [weights][u0] client.done url=http://i:8000 path=/update_weights op=update_weights"
    " wall_ms=900 rpc_ms=850 queue_ms=50"
)
STEP = "[titan] 2026-03-02 08:15:30,402 - root - INFO - step:  3  loss: 10.1  tps: 914  mfu: 1.71%"


def session(line: str, least: int = 5) -> Session:
    """A run whose GPU idles more than half of the time, and one line of its log."""
    made = Session(Config())
    polled = "\n".join(GPU.format(second, least + second % 4) for second in range(0, 60, 5))
    for name, text in (("gpus.log", polled), ("run.log", line)):
        made.feed(made.add_source(name), Block(text.encode() + b"\n", 0, 1))
    return made


def lane(made: Session) -> MetricLane:
    """The lane of the GPU."""
    builder = TimelineBuilder(made.store, made.recent, made.knowledge.bands)
    start, end = made.snapshot().run.start, made.snapshot().run.end
    board = builder.build(Now(Viewport(start, end, 20), end, align(made.store), made.snapshot(), ()))
    return next(lane for lane in board.metrics if lane.name == "gpu_busy")


def test_gpus_of_a_run_that_streams_are_judged_by_their_band() -> None:
    made = session(STEP)
    assert made.snapshot().metrics["gpu_busy"].band == "critical"
    assert lane(made).now_level is Level.CRITICAL


def test_where_weights_are_updated_nothing_judges_gpus_by_it() -> None:
    made = session(UPDATE)
    stats = made.snapshot().metrics["gpu_busy"]
    assert (stats.band, stats.good, stats.critical, stats.band_shares) == (None, None, None, {})
    drawn = lane(made)
    assert (drawn.now_level, drawn.good, set(drawn.levels)) == (Level.NONE, None, {0})
    view = view_of(made.store, made.knowledge, align(made.store))
    result = [part for part in parts(view) if part.metric == "gpu_busy"]
    assert [(part.level, part.good, part.critical) for part in result] == [(None, None, None)]
    assert diagnose(made.store, made.knowledge).metrics["gpu_busy"].band is None


def test_it_is_still_better_the_busier_they_are() -> None:
    held = load_bands().holding(lambda names: "staleness" in names, lambda _: 0.0)
    assert held.get("gpu_busy") is None
    assert held.direction("gpu_busy") == "higher"
    assert held.direction("queue_ms") == LOWER
    assert held.get("queue_ms") is not None


def test_a_users_limits_hold_everywhere_unless_they_say_so_themselves(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text("schema = 1\n[band.gpu_busy]\ngood = 60\ncritical = 20\nhigher_is_worse = false\n")
    band = load_bands([mine]).holding(lambda names: True, lambda _: 0.0).get("gpu_busy")
    assert band is not None
    assert (band.good, band.critical) == (60, 20)


def test_limits_that_are_learned_elsewhere_keep_where_they_do_not_hold(tmp_path: Path) -> None:
    made = session(STEP, 88)
    view = view_of(made.store, made.knowledge, align(made.store))
    learned = tmp_path / "learned.toml"
    learned.write_text(as_toml(learn(view.metrics, load_bands(), "a run"), ["of a run"]))
    band, known = load_bands([learned]).get("gpu_busy"), load_bands().get("gpu_busy")
    assert band is not None
    assert known is not None
    assert band.unless == known.unless
    assert band.good < known.good


def test_what_the_built_in_limits_and_signatures_say_of_such_runs_is_the_same_and_known() -> None:
    band = load_bands().get("gpu_busy")
    idle = next(signature for signature in load_signatures() if signature.id == "gpu-idle")
    assert band is not None
    assert band.unless == idle.unless
    assert set(band.unless) <= vocabulary().every


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[band.queue_mss]\ngood = 1\ncritical = 2\n", "band.queue_mss: no format reads it, did you mean queue_ms?"),
        ("[band.mine_zzz]\ngood = 1\ncritical = 2\n", "band.mine_zzz: no format reads it"),
        ("[better]\nlower = ['stepp_s']\n", "better: stepp_s: no format reads it, did you mean step_s?"),
        (
            "[band.queue_ms]\ngood = 1\ncritical = 2\nunless = ['weight-updte']\n",
            "band.queue_ms.unless: weight-updte: no format reads it, did you mean weight-update?",
        ),
    ],
)
def test_limits_that_would_judge_nothing_are_told(text: str, message: str, tmp_path: Path, capsys: Output) -> None:
    mine, log = tmp_path / "mine.toml", tmp_path / "run.log"
    mine.write_text(f"schema = 1\n{text}")
    log.write_text(f"{UPDATE}\n")
    assert main(["rules", "check", str(mine)]) == ExitCode.FOUND
    assert capsys.readouterr().out == f"{mine}: {message}\n"
    assert main(["analyze", str(log), "--bands", str(mine)]) == ExitCode.DONE
    result = capsys.readouterr().err.splitlines()
    assert [line for line in result if message in line] == [line for line in result if str(mine) in line] != []


def test_limits_of_a_format_of_ones_own_are_fine(tmp_path: Path, capsys: Output) -> None:
    mine, formats = tmp_path / "mine.toml", tmp_path / "formats"
    mine.write_text(
        'schema = 1\n[band.oven_c]\ngood = 1\ncritical = 2\n[band."rpc_ms.load_it"]\ngood = 1\ncritical = 2\n'
    )
    formats.mkdir()
    (formats / "oven.toml").write_text(
        "schema = 1\nid = 'oven'\ntitle = 'Oven'\nrank = 90\nhealthy = []\n[[pattern]]\n"
        "id = 'heat'\nneedles = ['oven=']\n"
        "regex = 'oven=(?P<heat>[0-9]+)'\nemit = [{ metric = 'oven_c', field = 'heat' }]\nrejects = ['oven=x']\n"
        "[[pattern.sample]]\ntext = 'oven=3'\ngives = { oven_c = 3 }\n"
    )
    assert main(["rules", "check", str(mine), "--formats", str(formats)]) == ExitCode.DONE
    assert main(["rules", "check", str(mine)]) == ExitCode.FOUND
    assert "oven_c" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("wrong", "odd"),
    [("{count", "{count of {total:sam"), ("count}", "} of {total:sample} "), ("[{count}", "[{count} of {total:s")],
)
def test_a_placeholder_that_is_not_closed_is_told(wrong: str, odd: str, tmp_path: Path, capsys: Output) -> None:
    import perfmon.rules

    text = (Path(perfmon.rules.__path__[0]) / "signatures/kv-cache-pressure.toml").read_text()
    mine, log = tmp_path / "mine.toml", tmp_path / "run.log"
    mine.write_text(text.replace("{count}", wrong, 1))
    log.write_text(f"{UPDATE}\n")
    assert main(["rules", "check", str(mine)]) == ExitCode.FOUND
    message = capsys.readouterr().out
    assert message.startswith(f"{mine}: sentence: '{odd}")
    assert message.count("\n") == 1
    assert main(["analyze", str(log), "--signatures", str(tmp_path)]) == ExitCode.USAGE
    assert f"{mine}: sentence: '{odd}" in capsys.readouterr().err
