"""Limits that are learned: robust, with a margin, never of what is bad, and they say where they come from."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from perfmon.core.config import AUTO, Config
from perfmon.core.model import Ref
from perfmon.diagnosis.baseline import Calibration, as_toml, learn, tightest
from perfmon.diagnosis.result import Diagnosis
from perfmon.pipeline.offline import diagnose_texts
from perfmon.rules.bands import Band, load_bands
from perfmon.rules.tracks import Track

BANDS = load_bands()


def track(metric: str, groups: Mapping[str, Sequence[float]]) -> Track:
    """Samples of some groups, one group after the other."""
    rows = [(group, value) for group, values in groups.items() for value in values]
    return Track(
        metric,
        [float(at) for at in range(len(rows))],
        [value for _, value in rows],
        lambda at: (Ref(0, at, at), ""),
        [(0, group) for group, _ in rows],
    )


def learned(metric: str, *groups: Sequence[float], capped: bool = False) -> Band:
    """The limits of one metric."""
    samples = {str(at): values for at, values in enumerate(groups)}
    (held,) = learn({metric: track(metric, samples)}, BANDS, "calibrated from x", capped=capped).learned
    return held.band


def around(mean: float, count: int = 60, seed: int = 0) -> list[float]:
    """Samples about a mean."""
    chance = random.Random(seed)
    return [mean * chance.gauss(1.0, 0.05) for _ in range(count)]


def test_what_is_usual_is_good_and_twice_that_is_not() -> None:
    band = learned("rpc_ms", around(14_000))
    assert {band.level(value) for value in around(14_000, 500, seed=1)} == {0}
    assert band.level(28_000) == 1
    assert band.critical == pytest.approx(2.5 * band.good, rel=0.01)  # as 5000 to 2000
    assert band.origin == "calibrated from x, n=60"


def test_one_slow_step_moves_no_limit() -> None:
    calm = around(6.0, 20)
    assert learned("batch_wait_s", [63.0, *calm]).good == pytest.approx(learned("batch_wait_s", calm).good, rel=0.15)


def test_of_throughput_low_values_are_bad() -> None:
    band = learned("throughput_tps", around(1000))
    assert (band.level(1000), band.level(band.critical - 1), band.higher_is_worse) == (0, 2, False)
    assert 500 < band.good < 900


def test_half_of_the_usual_throughput_is_never_good() -> None:
    chance = random.Random(4)
    values = [1000 * chance.gauss(1.0, 0.1) for _ in range(400)]
    band = learned("throughput_tps", values)
    assert sum(band.level(value) > 0 for value in values) == 0
    assert band.level(480) == 1
    assert band.level(250) == 2


def test_of_throughput_that_swings_a_limit_is_learned_all_the_same() -> None:
    chance = random.Random(5)
    band = learned("throughput_tps", [1000 * chance.gauss(1.0, 0.25) for _ in range(400)])
    assert 200 < band.good < 450


def test_pauses_of_a_few_samples_hide_no_throughput_and_pauses_of_many_leave_it_without_limits() -> None:
    paused = [0.0] * 2 + around(1000)
    assert learned("throughput_tps", paused).good == pytest.approx(
        learned("throughput_tps", around(1000)).good, rel=0.1
    )
    assert not learn({"throughput_tps": track("throughput_tps", {"": [0.0] * 20 + around(1000)})}, BANDS, "x").learned


def test_the_group_that_needs_most_room_decides() -> None:
    assert learned("rpc_ms", around(1000), around(3000, seed=1)).good > 3000


def test_jitter_sets_no_limit() -> None:
    assert learned("queue_ms", [1.0] * 20).good == 50


def test_shares_are_widened_never_narrowed() -> None:
    assert learned("trunc_pct", around(20)).good > 20
    assert learn({"trunc_pct": track("trunc_pct", {"": around(2)})}, BANDS, "x").learned == ()
    assert learned("kv_usage", around(95)).critical <= 100


def test_a_capped_limit_stays_within_what_is_critical() -> None:
    assert learned("rpc_ms", around(14_000), capped=True) == learned("rpc_ms", around(40_000), capped=True)
    assert learned("rpc_ms", around(14_000), capped=True).critical == 5000
    assert learned("queue_fill", around(10), capped=True).critical >= 30


def test_few_samples_and_no_direction_teach_nothing() -> None:
    tracks = {name: track(name, {"": around(5, count)}) for name, count in (("rpc_ms", 9), ("inflight", 50))}
    calibration = learn(tracks, BANDS, "x")
    assert (calibration.learned, calibration.too_few) == ((), {"rpc_ms": 9})


def test_limits_that_depend_on_the_async_level_are_left_alone() -> None:
    assert learn({"staleness": track("staleness", {"": [3.0] * 50})}, BANDS, "x") == Calibration((), {})


def test_lines_are_kept_beyond_the_narrowest_limit_that_may_be_learned() -> None:
    keep = tightest(BANDS).remarkable()
    assert (keep("rpc_ms", 49.0), keep("rpc_ms", 60.0), keep("kv_usage", 60.0)) == (False, True, False)


@pytest.mark.parametrize("name", ["plain", 'a"b\\c', "[x]\n]", "\x1b[31mred\u202e"])
def test_the_file_is_read_back_whatever_a_metric_or_a_run_is_called(tmp_path: Path, name: str) -> None:
    bands = type(BANDS)(BANDS.table, {**BANDS.better, name: "lower"})
    tracks = {metric: track(metric, {"": around(14_000)}) for metric in ("rpc_ms", "throughput_tps", name)}
    calibration = learn(tracks, bands, f"calibrated from {name}")
    file = tmp_path / "mine.toml"
    file.write_text(as_toml(calibration, [f"from {name}"]), encoding="utf-8")
    read = load_bands([file])
    assert (
        read.table["rpc_ms"].good
        == calibration.learned[[h.band.metric for h in calibration.learned].index("rpc_ms")].band.good
    )
    assert not read.table["throughput_tps"].higher_is_worse
    assert read.table["rpc_ms"].origin.startswith("calibrated from ")


# --- limits from the run's own start ----------------------------------------------------------------------------------
def log(rpc_ms: Sequence[float], queue_ms: float = 10.0, step_s: float = 30.0) -> dict[str, str]:
    """One update a step."""
    lines = []
    begin = datetime(2026, 8, 21, 10)
    for at, rpc in enumerate(rpc_ms):
        wall = rpc + queue_ms
        result = f"wall_ms={wall:.1f} rpc_ms={rpc:.1f} queue_ms={queue_ms:.1f}"
        when = begin + timedelta(seconds=step_s * at)
        lines.append(f"{when:%Y-%m-%d %H:%M:%S} [weights][{at:06x}] client.send url=http://a op=update_weights")
        lines.append(
            f"{when + timedelta(milliseconds=wall):%Y-%m-%d %H:%M:%S} [weights][{at:06x}] client.done {result}"
        )
    return {"orchestrator.log": "\n".join(lines)}


def auto(logs: Mapping[str, str]) -> Diagnosis:
    """The diagnosis with limits from the run's own start."""
    return diagnose_texts(logs, Config(baseline=AUTO))


def test_limits_come_from_the_healthy_start() -> None:
    rpc = auto(log(around(300, 38))).metrics["rpc_ms"]
    assert rpc.bands_from == "learned from the first 10m 00s of this run, n=21"
    assert rpc.good is not None
    assert 300 < rpc.good < 600


def test_what_gets_worse_later_is_found_with_its_lines() -> None:
    logs = log([*around(300, 30), *[1900.0] * 20], step_s=30)
    assert diagnose_texts(logs).findings == ()
    (finding,) = auto(logs).findings
    assert finding.signature == "slow-weight-load"
    assert finding.evidence


@pytest.mark.parametrize("rpc_ms", [14_000.0, 3000.0])
def test_a_run_that_is_bad_from_its_first_step_teaches_nothing(rpc_ms: float) -> None:
    logs = log([rpc_ms] * 60)
    assert auto(logs) == diagnose_texts(logs)
    assert "slow-weight-load" in {finding.signature for finding in auto(logs).findings}


def test_only_what_lies_before_the_first_finding_teaches() -> None:
    logs = log([*[300.0] * 16, *[9000.0] * 24])
    rpc = auto(logs).metrics["rpc_ms"]
    assert rpc.bands_from == "learned from the first 8m 00s of this run, n=16"
    assert rpc.good is not None
    assert rpc.good < 600


def test_a_short_run_teaches_nothing() -> None:
    assert auto(log([300.0] * 9)).metrics["rpc_ms"].bands_from == BANDS.table["rpc_ms"].origin
