"""Two runs side by side: what counts as a change, what is gone, and the verdict."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import snapshots

from perfmon.comparison.comparing import compare
from perfmon.comparison.model import Comparison, MetricChange, Run, load_criteria
from perfmon.core.errors import DataFileError
from perfmon.core.model import Severity
from perfmon.diagnosis.result import Diagnosis
from perfmon.rules.bands import load_bands

BANDS, CRITERIA = load_bands(), load_criteria()
SEEN = {"weight-update": 15}
SUBJECTS = {"frontend-queue": ("weight-update",)}


def around(mean: float, count: int = 40, spread: float = 0.02, seed: int = 0) -> list[float]:
    """Samples about a mean."""
    chance = random.Random(f"{mean}/{seed}")
    return [mean * chance.gauss(1.0, spread) for _ in range(count)]


def run(
    samples: Mapping[str, Sequence[float]], snapshot: Diagnosis | None = None, seen: Mapping[str, int] = SEEN
) -> Run:
    """A run of these samples, healthy unless a snapshot says otherwise."""
    return Run(snapshot or snapshots.healthy(), BANDS, samples, seen, SUBJECTS)


def changed(metric: str, before: Sequence[float], after: Sequence[float]) -> MetricChange:
    """How one metric changed."""
    (change,) = compare(run({metric: before}), run({metric: after}), ()).metrics
    return change


def verdict(before: Run, after: Run) -> str:
    """The one answer."""
    return compare(before, after, CRITERIA).verdict


# --- metrics ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("metric", "before", "after", "expected"),
    [
        ("queue_ms", 12_000.0, 20.0, "better"),
        ("queue_ms", 20.0, 12_000.0, "worse"),
        ("throughput_tps", 1000.0, 800.0, "worse"),
        ("throughput_tps", 1000.0, 1200.0, "better"),
        ("trainer_step_s", 30.0, 30.6, "same"),  # beyond chance, but 2 %
        ("queue_ms", 20.0, 40.0, "same"),  # twice as long, and nothing beside 900 ms from good to critical
        ("rpc_ms.pause", 100.0, 200.0, "worse"),  # of any operation less is better
        ("inflight", 96.0, 128.0, None),
    ],
)
def test_a_change_counts_beyond_chance_and_when_it_matters(
    metric: str, before: float, after: float, expected: str | None
) -> None:
    assert changed(metric, around(before), around(after)).verdict == expected


def test_what_may_be_chance_is_no_change() -> None:
    wide = changed("throughput_tps", around(1000.0, 12, 0.3, seed=1), around(1200.0, 12, 0.3, seed=2))
    assert (wide.verdict, wide.why, wide.unsure) == (None, "may be chance", True)


def test_a_metric_without_a_good_direction_is_told_not_judged() -> None:
    change = changed("inflight", around(96.0), around(128.0))
    assert (change.verdict, change.moved) == (None, True)


def test_few_samples_are_not_judged() -> None:
    change = changed("queue_ms", [9000.0] * 4, [10.0] * 40)
    assert (change.verdict, change.why) == (None, "too few samples: 4 and 40")


def test_a_longer_tail_is_worse_though_the_mean_is_not() -> None:
    calm, tail = around(3000.0, 400), around(3000.0, 400, seed=1)
    for at in range(0, 400, 12):
        tail[at] = 4000.0
    change = changed("dur_ms", calm, tail)
    assert (change.verdict, change.why) == ("worse", "p95")


def test_of_throughput_the_mean_alone_decides() -> None:
    steady, uneven = around(1000.0, 200), [*around(1100.0, 150), *around(700.0, 50)]
    random.Random(0).shuffle(uneven)
    assert changed("gen_tps", uneven, steady).verdict == "same"


def test_what_is_good_before_and_after_speaks_neither_for_nor_against_the_run() -> None:
    change = changed("rpc_ms", around(1000.0), around(1600.0))
    assert (change.verdict, change.good_anyway, change.counts) == ("worse", True, False)
    assert verdict(run({"rpc_ms": around(1000.0)}), run({"rpc_ms": around(1600.0)})) == "unchanged"


def test_bands_are_those_of_the_bad_tail() -> None:
    change = changed("queue_ms", around(12_000.0), [20.0] * 30)
    assert change.before is not None
    assert change.after is not None
    assert (change.before.band, change.after.band) == ("critical", "good")


# --- the verdict ------------------------------------------------------------------------------------------------------
BAD = snapshots.snapshot()
QUEUED, CALM = {"queue_ms": [12_000.0] * 15}, {"queue_ms": around(20.0, 15)}


def test_a_bottleneck_that_is_gone_is_fixed() -> None:
    comparison = compare(run(QUEUED, BAD), run(CALM), CRITERIA)
    assert comparison.verdict == "fixed"
    assert comparison.sentence.startswith("Front-end queue saturation is gone (31 % of the time lost before)")
    assert "queue_ms mean 12.0 s → 20 ms" in comparison.sentence


def test_a_bottleneck_that_is_new_is_a_regression() -> None:
    comparison = compare(run(CALM), run(QUEUED, BAD), CRITERIA)
    assert comparison.verdict == "regressed"
    assert "Front-end queue saturation is new" in comparison.sentence


def test_a_bottleneck_that_is_gone_at_a_cost_is_mixed() -> None:
    before, after = ({**QUEUED, "gen_tps": around(2000.0)}, {**CALM, "gen_tps": around(1500.0)})
    assert verdict(run(before, BAD), run(after)) == "mixed"


def test_a_host_that_has_less_to_do_makes_no_better_run() -> None:
    """What waits loads nothing: that decides only where nothing else does."""
    before, after = {**CALM, "psi_cpu_pct": around(60.0)}, {**QUEUED, "psi_cpu_pct": around(10.0)}
    assert verdict(run(before), run(after, BAD)) == "regressed"
    assert verdict(run(after, BAD), run(before)) == "fixed"
    alone = {"psi_cpu_pct": before["psi_cpu_pct"]}, {"psi_cpu_pct": after["psi_cpu_pct"]}
    assert verdict(run(alone[0]), run(alone[1])) == "improved"


def test_a_criterion_that_is_not_met_is_not_fixed() -> None:
    assert verdict(run(QUEUED, BAD), run({"queue_ms": around(500.0, 15)})) == "improved"


def test_nobody_calls_fixed_what_was_not_looked_for() -> None:
    comparison = compare(run({**QUEUED, "kv_usage": around(50.0)}, BAD), run({"kv_usage": around(50.0)}, seen={}), ())
    assert comparison.verdict == "cannot tell"
    assert "its inputs were observed 15 times before and 0 after: too few" in comparison.sentence


@pytest.mark.parametrize(
    ("held", "looked", "outcome"),
    [(1, 1, False), (2, 2, False), (2, 5, True), (3, 3, True), (15, 4, False), (15, 5, True)],
)
def test_of_a_handful_of_samples_nothing_is_gone_and_nothing_new(held: int, looked: int, outcome: bool) -> None:
    bad = run({"queue_ms": [12_000.0] * held}, BAD, seen={"weight-update": held})
    calm = run({"queue_ms": [20.0] * looked}, seen={"weight-update": looked})
    assert (verdict(bad, calm), verdict(calm, bad)) == (("fixed", "regressed") if outcome else ("cannot tell",) * 2)


@pytest.mark.parametrize(("count", "outcome"), [(1, False), (3, False), (4, True)])
def test_what_was_found_seldom_may_be_chance(count: int, outcome: bool) -> None:
    found = snapshots.finding(count=count, lost=(), lost_s=30.0, lost_share=0.05)
    bad = replace(BAD, findings=(found,), ledger=BAD.ledger[1:])
    queued = run({"queue_ms": [12_000.0] * count + [20.0] * (15 - count)}, bad)
    calm = run(CALM)
    ways = [compare(queued, calm, ()), compare(calm, queued, ())]
    assert [way.findings[0].rare for way in ways] == [not outcome] * 2
    if not outcome:
        assert [way.verdict for way in ways] == ["cannot tell"] * 2
        assert f"found in {count} of 15 before and in 0 of 15 after, which may be chance" in ways[0].sentence


def test_what_may_be_chance_hides_nothing_that_is_not() -> None:
    found = snapshots.finding(count=1, lost=(), lost_s=30.0, lost_share=0.05)
    bad = replace(BAD, findings=(found,), ledger=BAD.ledger[1:])
    queued = run({"queue_ms": [12_000.0] + [20.0] * 14, "gen_tps": around(2000.0)}, bad)
    assert verdict(queued, run({**CALM, "gen_tps": around(1500.0)})) == "regressed"


def _waiting(count: int, of: int, cheap: float = 0.01) -> Run:
    """A run of `of` updates in which the first `count` waited a little."""
    found = snapshots.finding(severity=Severity.WARNING, count=count, lost=(), lost_s=600 * cheap, lost_share=cheap)
    bad = replace(snapshots.healthy(), findings=(found,))
    return run({"queue_ms": [500.0] * count + around(20.0, of - count)}, bad, {"weight-update": of})


def test_what_is_cheap_and_in_half_of_a_run_is_not_called_unchanged() -> None:
    calm, half = run({"queue_ms": around(20.0, 60)}, seen={"weight-update": 60}), _waiting(30, 60)
    ways = [compare(calm, half, ()), compare(half, calm, ())]
    assert [way.verdict for way in ways] == ["cannot tell"] * 2
    assert ways[0].sentence.startswith("Front-end queue saturation: found in 0 of 60 before and in 30 of 60 after; but")
    assert [way.findings[0].spread for way in ways] == [1, -1]


@pytest.mark.parametrize(("count", "outcome"), [(4, False), (9, True)])
def test_what_is_cheap_and_seldom_is_a_small_matter(count: int, outcome: bool) -> None:
    calm = run({"queue_ms": around(20.0, 60)}, seen={"weight-update": 60})
    assert verdict(calm, _waiting(count, 60)) == ("cannot tell" if outcome else "unchanged")


def test_what_is_in_half_of_a_run_is_told_beside_another_verdict() -> None:
    calm = run({"queue_ms": around(20.0, 60), "gen_tps": around(1500.0)}, seen={"weight-update": 60})
    half = _waiting(30, 60)
    half = replace(half, samples={**half.samples, "gen_tps": around(2000.0)})
    comparison = compare(calm, half, ())
    assert comparison.verdict == "improved"
    assert any(note.startswith("frontend-queue: found in 0 of 60") for note in comparison.notes)


def test_what_a_figure_shows_beyond_chance_leaves_nothing_open() -> None:
    calm, half = run({"queue_ms": around(20.0, 60)}, seen={"weight-update": 60}), _waiting(30, 60)
    mixed = [500.0 if at % 2 else 20.0 for at in range(60)]
    comparison = compare(calm, replace(half, samples={"queue_ms": mixed}), ())
    assert (comparison.verdict, comparison.notes) == ("regressed", ())


def test_a_metric_that_one_run_alone_tells_is_named() -> None:
    both = {"rpc_ms": around(1000.0)}
    comparison = compare(
        run({**both, "gen_tps": around(9.0), "inflight": around(9.0)}), run({**both, "mfu_pct": [5.0]}), ()
    )
    assert comparison.notes == ("only in the run before, not compared: gen_tps (mean 9.028 tokens/s)",)
    many = {f"{name}_tps": around(9.0) for name in ("gen", "prompt", "throughput")}
    (note,) = compare(run(both), run({**both, **many, **{f"rpc_ms.x{n}": around(9.0) for n in range(9)}}), ()).notes
    assert note.startswith("only in the run after, not compared: gen_tps (mean ")
    assert note.endswith(" more")


def test_what_only_counts_up_has_no_mean_to_compare() -> None:
    both = {"rpc_ms": around(1000.0)}
    before, after = run({**both, "produced_batches": [*range(40)]}), run({**both, "produced_batches": [*range(9, 19)]})
    assert {change.name for change in compare(before, after, ()).metrics} == {"rpc_ms"}


def test_nothing_in_common_cannot_be_compared() -> None:
    assert verdict(run({"queue_ms": [1.0]}), run({"rpc_ms": [1.0]})) == "cannot tell"


def test_an_isolated_event_is_told_but_is_no_regression() -> None:
    once = snapshots.finding(signature="checkpoint-stall", count=1, lost_s=2.0, lost_share=0.003)
    after = replace(snapshots.healthy(), findings=(once,))
    comparison = compare(run(CALM), run(CALM, after), CRITERIA)
    assert [change.kind for change in comparison.findings] == ["new"]
    assert comparison.verdict == "unchanged"


def test_notes_and_pending_findings_are_no_regression() -> None:
    note = snapshots.finding(signature="blocking-eval", severity=Severity.INFO, lost_share=0.3)
    pending = snapshots.finding(state="pending")
    comparison = compare(run(CALM), run(CALM, replace(snapshots.healthy(), findings=(note, pending))), CRITERIA)
    assert [change.signature for change in comparison.findings] == ["blocking-eval"]
    assert comparison.verdict == "unchanged"


def _losing(*lost: tuple[float, float]) -> Diagnosis:
    """600 s with a front-end queue in these stretches."""
    seconds = sum(high - low for low, high in lost)
    found = snapshots.finding(lost=lost, lost_s=seconds, lost_share=seconds / 600.7)
    entries = (replace(BAD.ledger[0], lost_s=seconds, share=seconds / 600.7), BAD.ledger[1])
    return replace(BAD, findings=(found,), ledger=entries)


def test_less_time_lost_is_an_improvement_though_the_finding_stays() -> None:
    steady = [(20.0 * at, 20.0 * at + 12.0) for at in range(30)]
    less = [(low, low + 3.0) for low, _ in steady]
    comparison = compare(run(CALM, _losing(*steady)), run(CALM, _losing(*less)), ())
    assert comparison.lost_change is not None
    assert comparison.lost_change.change == pytest.approx(-0.45, abs=0.01)
    assert (comparison.verdict, comparison.findings[0].kind) == ("improved", "still")


def test_an_episode_more_may_be_chance() -> None:
    few = _losing((100.0, 112.0), (400.0, 412.0))
    more = _losing((50.0, 62.0), (200.0, 212.0), (500.0, 512.0))
    comparison = compare(run(CALM, few), run(CALM, more), ())
    assert comparison.lost_change is not None
    assert comparison.lost_change.change > 0.015
    assert comparison.verdict == "unchanged"


@pytest.mark.parametrize(("seconds", "outcome"), [(75.0, "cannot tell"), (300.0, "unchanged"), (0.0, "unchanged")])
def test_a_run_that_broke_off_early_is_not_called_unchanged(seconds: float, outcome: str) -> None:
    whole = snapshots.healthy()
    early = replace(whole, run=replace(whole.run, end=whole.run.start + seconds, wall_s=seconds))
    for pair in ((run(CALM, whole), run(CALM, early)), (run(CALM, early), run(CALM, whole))):
        comparison = compare(*pair, CRITERIA)
        assert comparison.verdict == outcome
        assert any("--first 75s" in note for note in comparison.notes) == (outcome == "cannot tell")
        assert ("the later part exists in one run only" in comparison.sentence) == (outcome == "cannot tell")


def test_what_is_odd_in_the_logs_is_told_once_each_and_not_without_end() -> None:
    whole = snapshots.healthy()
    (source, *_) = whole.run.sources
    odd = replace(source, spec="a.log", notes=tuple(f"a.log: line {at} is odd" for at in range(11)))
    after = replace(whole, run=replace(whole.run, sources=(odd,)))
    notes = [note for note in compare(run(CALM), run(CALM, after), ()).notes if note.startswith("after: ")]
    outcome = [f"after: a.log: line {at} is odd" for at in range(8)]
    assert notes == [*outcome, "after: 3 more notes (perfmon analyze)"]


def test_what_differs_is_told_of_a_short_run_too() -> None:
    whole = snapshots.healthy()
    early = replace(whole, run=replace(whole.run, end=whole.run.start + 60.0, wall_s=60.0))
    slow = run({**CALM, "queue_ms": around(900.0)}, early)
    assert compare(run(CALM, whole), slow, ()).verdict == "regressed"


# --- criteria ---------------------------------------------------------------------------------------------------------
def _criteria(comparison: Comparison) -> list[bool | None]:
    return [result.ok for result in comparison.criteria]


def test_the_criteria_of_the_field_investigation() -> None:
    good = {"queue_ms": around(87.0), "rpc_ms": around(1234.0), "gen_tps": around(2000.0), "trunc_pct": around(4.0)}
    bad = {"queue_ms": around(400.0), "rpc_ms": around(6000.0), "gen_tps": around(1500.0), "trunc_pct": around(40.0)}
    assert _criteria(compare(run(good), run(good), CRITERIA)) == [True, True, True, True, None]
    assert _criteria(compare(run(good), run(bad), CRITERIA)) == [False, False, False, False, None]


def test_consistently_means_nearly_every_update() -> None:
    rarely = [20.0] * 95 + [900.0] * 5
    assert _criteria(compare(run(CALM), run({"queue_ms": rarely}), CRITERIA))[0] is False


def test_ones_own_criteria(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('schema = 1\n[[criterion]]\nname = "a"\nmetric = ["x", "gen_tps"]\nstatistic = "p50"\nabove = 9\n')
    (criterion,) = load_criteria(file)
    comparison = compare(run({}), run({"gen_tps": [10.0] * 9}), (criterion,))
    assert [(result.ok, result.figures) for result in comparison.criteria] == [(True, "gen_tps p50 10 tokens/s")]


def test_the_criteria_of_the_guide_are_read(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "compare.md").read_text()
    (tmp_path / "guide.toml").write_text(page.split("```toml")[1].split("```")[0])
    assert [criterion.kind for criterion in load_criteria(tmp_path / "guide.toml")] == ["below", "band", "change"]


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("schema = 2", "schema"),
        ("schema = 1\n[[criterion]]\nmetric = 'x'\nbelow = 1", "criterion[0].name"),
        ("schema = 1\n[[criterion]]\nname = 'a'\nbelow = 1", "criterion[0].metric"),
        ("schema = 1\n[[criterion]]\nname = 'a'\nmetric = 'x'", "criterion[0].below"),
        ("schema = 1\n[[criterion]]\nname = 'a'\nmetric = 'x'\nbelow = 1\nabove = 2", "criterion[0].below"),
        ("schema = 1\n[[criterion]]\nname = 'a'\nmetric = 'x'\nbelow = 'low'", "criterion[0].below"),
        ("schema = 1\n[[criterion]]\nname = 'a'\nmetric = 'x'\nband = 'red'", "criterion[0].band"),
        ("schema = 1\n[[criterion]]\nname = 'a'\nmetric = 'x'\nchange = 'up'", "criterion[0].change"),
        ("schema = 1\n[[criterion]]\nname = 'a'\nmetric = 'x'\nstatistic = 'p42'\nbelow = 1", "criterion[0].statistic"),
    ],
)
def test_a_mistake_names_file_and_key(tmp_path: Path, text: str, key: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(DataFileError) as caught:
        load_criteria(file)
    assert (caught.value.file, caught.value.key) == (str(file), key)
