"""Conditions that look at the course of a metric: what lasts, stands still, jumps, drifts, comes in a rhythm, grows."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_conditions import ON_KV, condition, found, samples

from perfmon.core.config import Config
from perfmon.core.model import Block
from perfmon.pipeline.session import Session

ON_STEPS = '[[on]]\nmetric = "step_s"\n'
ON_LOSS = '[[on]]\nmetric = "loss"\n'
NOISE = (0.0, 0.02, -0.03, 0.01, -0.01, 0.03, -0.02)


def steps(seconds: list[float], every: int = 5, loss: list[float] | None = None, first: int = 0) -> str:
    """A log with one line a step."""
    lines = []
    for at, took in enumerate(seconds):
        second = at * every
        clock = f"{10 + second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
        tail = "" if loss is None else f" loss={loss[at]:.4f}"
        lines.append(f"2026-03-02 {clock} step={first + at} step_time={took:.3f}{tail}")
    return "\n".join(lines)


def counts(tmp_path: Path, toml: str, *logs: str) -> list[int]:
    """How often it was found."""
    return [finding.count for finding in found(tmp_path, toml, *logs) if finding.state != "pending"]


@pytest.mark.parametrize(
    ("values", "count"),
    [([9, 9, 9], 3), ([1, 9, 9, 9, 1], 3), ([9, 9, 1, 9, 9], 0), ([1, 9, 9, 9, 9, 1, 9], 4)],
)
def test_what_lasts_counts_from_its_first_sample(tmp_path: Path, values: list[float], count: int) -> None:
    keys = {"type": "steady", "metric": "kv_usage", "above": 5, "least": 3, "least_s": 20}
    assert sum(counts(tmp_path, ON_KV + condition(**keys), samples("kv_usage", values))) == count


@pytest.mark.parametrize(
    ("values", "falls", "count"),
    [([5, 7, 7, 7, 6], False, 3), ([5, 6, 7, 8], False, 0), ([8, 7, 7, 6], True, 4), ([6, 7, 8, 9], True, 0)],
)
def test_what_does_not_change(tmp_path: Path, values: list[float], falls: bool, count: int) -> None:
    toml = ON_KV + '[[condition]]\ntype = "steady"\nmetrics = ["kv_usage"]\nleast = 3\n'
    toml += "falls = true\n" if falls else ""
    assert sum(counts(tmp_path, toml, samples("kv_usage", values))) == count


def test_what_the_run_tells_of(tmp_path: Path) -> None:
    of = '[[condition]]\ntype = "has"\nnames = ["step_s", "reward"]\n'
    text = samples("kv_usage", [1])
    assert not found(tmp_path, ON_KV + of, text)
    assert found(tmp_path, ON_KV + of, text, steps([4.0]))
    assert found(tmp_path, ON_KV + of + "none = true\n", text)


def _engine(rows: list[tuple[int, float]]) -> str:
    line = "INFO 03-02 10:{:02d}:{:02d} [loggers.py:336] Engine 000: Avg prompt throughput: 0.0 tokens/s, {}"
    rest = "Avg generation throughput: {} tokens/s, Running: {} reqs, Waiting: 0 reqs, GPU KV cache usage: 9.0%"
    return "\n".join(
        line.format(at // 6, at % 6 * 10, rest.format(made, running)) for at, (running, made) in enumerate(rows)
    )


@pytest.mark.parametrize(
    ("slow", "count"),
    [((4, 3.0), 3), ((4, 8.0), 0), ((1, 30.0), 0)],  # 0.75 for each; 2 for each; one alone, quicker than many
)
def test_a_trickle_is_far_below_what_was_usual_and_next_to_nothing(
    tmp_path: Path, slow: tuple[int, float], count: int
) -> None:
    keys = {"type": "peers", "what": "trickle", "metric": "gen_tps", "per": "running", "share": 5, "below": 1}
    rows = [(80, 2000.0 + at) for at in range(6)] + [slow] * 3
    assert sum(counts(tmp_path, '[[on]]\nmetric = "gen_tps"\n' + condition(**keys), _engine(rows))) == count


def test_peers_that_tell_nothing_were_idle_only_where_their_last_word_says_so(tmp_path: Path) -> None:
    keys = {"type": "peers", "what": "busiest", "metric": "kv_usage", "factor": 2, "within_s": 60}
    toml = ON_KV + condition(**keys)
    busy = samples("kv_usage", [40] * 12)
    assert counts(tmp_path, toml, busy, samples("kv_usage", [9, 0])) == [11]
    assert counts(tmp_path, toml, busy, samples("kv_usage", [9, 9])) == []
    assert counts(tmp_path, toml, busy) == []


@pytest.mark.parametrize(
    ("values", "count"),
    [
        ([2.0] * 30 + [9.0] * 12, 12),
        ([2.0] * 30 + [9.0] * 8, 0),  # it may yet come back
        ([2.0] * 30 + [9.0] * 12 + [2.1] * 3, 0),
        ([2.0] * 30 + [2.4] * 12, 0),
        ([9.0 - 0.1 * at for at in range(60)], 0),
        ([2.0 + 0.05 * at for at in range(60)], 0),  # it rises, but from nowhere to nowhere
    ],
)
def test_a_jump_that_does_not_come_back(tmp_path: Path, values: list[float], count: int) -> None:
    loss = [value * (1 + NOISE[at % 7] / 3) for at, value in enumerate(values)]
    text = steps([4.0] * len(values), loss=loss)
    toml = ON_LOSS + condition(type="trend", shape="jump", metric="loss", deviations=10, floor=0.03)
    assert sum(counts(tmp_path, toml, text)) == count


def _noisy(values: list[float]) -> list[float]:
    return [value * (1 + NOISE[at % 7]) for at, value in enumerate(values)]


@pytest.mark.parametrize(
    ("values", "fires"),
    [
        ([4.0] * 40 + [5.0] * 30, True),
        ([4.0] * 40 + [4.2] * 30, False),  # 5 %
        ([4.0] * 30 + [5.0] * 20 + [4.0] * 30, False),
        ([9.0] * 4 + [4.0] * 60, False),
        ([4.0 + 0.02 * at for at in range(80)], True),
        ([5.6 - 0.02 * at for at in range(80)], False),  # it becomes faster
        ([4.0 if at // 9 % 2 else 5.0 for at in range(90)], False),  # two kinds of batches by turns
        ([4.0] * 15 + [5.0] * 4, False),  # not yet long enough to be sure
    ],
)
def test_a_drift_is_a_change_that_stays(tmp_path: Path, values: list[float], fires: bool) -> None:
    toml = ON_STEPS + condition(type="trend", shape="fall", metric="step_s", least=10, rising=True)
    assert bool(counts(tmp_path, toml, steps(_noisy(values)))) is fires


@pytest.mark.parametrize(
    ("values", "slower"),
    [
        ([4.0] * 100 + [9.0] * 150, True),
        ([4.0] * 250, False),
        ([9.0] * 100 + [4.0] * 150, False),
        ([4.0] * 40 + [9.0] * 60 + [4.0] * 150, False),  # it is back
    ],
)
def test_a_watched_run_that_has_been_slow_for_all_of_the_window_is_still_slower_than_before(
    values: list[float], slower: bool
) -> None:
    session = Session(Config())
    session.feed(session.add_source("train.log"), Block((steps(_noisy(values)) + "\n").encode(), 0, 1))
    alignment = session.lay()
    now = session.store.sources[0].last or 0.0
    findings = session.present((now - 600, now), alignment, now).findings
    drifts = [finding for finding in findings if finding.signature == "throughput-drift"]
    assert [f.state for f in drifts] == (["firing"] if slower else [])
    assert all("from 4.0 s to 9.0 s" in f.sentence for f in drifts)


def test_a_drift_is_none_where_there_is_more_to_do(tmp_path: Path) -> None:
    rows = [(64, 2000.0 + at % 3) for at in range(30)] + [(40, 1300.0 + at % 3) for at in range(30)]
    toml = '[[on]]\nmetric = "gen_tps"\n' + condition(type="trend", shape="fall", metric="gen_tps")
    assert counts(tmp_path, toml, _engine(rows))
    assert not counts(tmp_path, toml + 'same = ["running"]\n', _engine(rows))


@pytest.mark.parametrize(
    ("slow", "count"),
    [(set(range(5, 64, 8)), 8), ({5, 11, 30, 33, 52, 60}, 0), ({5, 13}, 0), (set(range(0, 64, 2)), 0)],
)
def test_slow_steps_in_a_rhythm(tmp_path: Path, slow: set[int], count: int) -> None:
    values = [9.5 if at in slow else 4.0 * (1 + NOISE[at % 7]) for at in range(64)]
    toml = ON_STEPS + condition(type="trend", shape="periodic", metric="step_s")
    assert sum(counts(tmp_path, toml, steps(values))) == count


def test_a_rhythm_is_not_known_of_steps_that_are_not_all_printed(tmp_path: Path) -> None:
    lines = steps([9.5 if at % 8 == 5 else 4.0 for at in range(64)]).splitlines()
    sparse = "\n".join(line.replace(f"step={at} ", f"step={20 * at} ") for at, line in enumerate(lines))
    assert not counts(tmp_path, ON_STEPS + condition(type="trend", shape="periodic", metric="step_s"), sparse)


@pytest.mark.parametrize(
    ("levels", "state"),
    [
        ([50.0 + 0.9 * at for at in range(40)], "critical"),
        ([50.0 + 0.3 * at for at in range(40)], "warning"),
        ([50.0 + 0.01 * at for at in range(40)], ""),
        ([min(70.0, 20.0 + 5 * at) for at in range(40)], ""),
        ([50.0 + 20 * (at % 8) / 8 for at in range(40)], ""),
    ],
)
def test_a_level_that_grows_steadily(tmp_path: Path, levels: list[float], state: str) -> None:
    line = "2026-03-02 10:{:02d}:00.118 [poll] host host=a name=all cpu_pct=3 mem_used_mb={:.0f} mem_total_mb=100000"
    text = "\n".join(line.format(at, 1000 * level) for at, level in enumerate(levels))
    toml = '[[on]]\nmetric = "mem_used_pct"\n' + condition(
        type="trend", shape="growth", metric="mem_used_pct", limit=97
    )
    severities = [str(f.severity) for f in found(tmp_path, toml, text) if f.state != "pending"]
    assert severities == ([state] if state else [])


def test_the_time_until_it_is_full_counts_from_the_newest_sample(tmp_path: Path) -> None:
    line = "2026-03-02 10:{:02d}:00.118 [poll] host host=a name=all cpu_pct=3 mem_used_mb={:.0f} mem_total_mb=100000"
    text = "\n".join(line.format(at, 1000 * (50.0 + at)) for at in range(41))
    toml = '[[on]]\nmetric = "mem_used_pct"\nsentence = "{full_in}"\n'
    toml += condition(type="trend", shape="growth", metric="mem_used_pct", limit=97)
    (finding,) = found(tmp_path, toml, text)
    assert finding.sentence == "7m 00s"


def test_a_level_that_grows_has_done_so_since_it_began(tmp_path: Path) -> None:
    line = "2026-03-02 10:{:02d}:00.118 [poll] host host=a name=all cpu_pct=3 mem_used_mb={:.0f} mem_total_mb=100000"
    toml = '[[on]]\nmetric = "mem_used_pct"\nsentence = "it grows[, full in {full_in}]"\n'
    toml += condition(type="trend", shape="growth", metric="mem_used_pct", limit=97)
    text = "\n".join(line.format(at, 1000 * min(96.9, 57.0 + at)) for at in range(44))
    (finding,) = found(tmp_path, toml, text)
    assert (finding.since_s, finding.count) == (0.0, 44)
    assert finding.sentence == "it grows"  # by now it would be full


@pytest.mark.parametrize(("last", "fires"), [(20, True), (7, False)])
def test_a_span_beside_those_before_it(tmp_path: Path, last: float, fires: bool) -> None:
    writes = [1.0, 1.2, 1.1, last]
    text = "\n".join(f"10:0{at}:30 [ckpt] write.done step={at} write_ms={1000 * s}" for at, s in enumerate(writes))
    toml = '[[on]]\nspan = "checkpoint-write"\n' + condition(
        type="duration", than="earlier", factor=3, least_s=10, known=3
    )
    assert bool(counts(tmp_path, toml, text)) is fires


def test_a_span_without_others_is_measured_by_what_is_built_in(tmp_path: Path) -> None:
    text = "10:00:30 [ckpt] write.done step=1 write_ms=9000"
    for seconds, fires in ((8, True), (10, False)):
        limits = f"built_in = {{ checkpoint-write = {seconds} }}\n"
        toml = '[[on]]\nspan = "checkpoint-write"\n[[condition]]\ntype = "duration"\nthan = "earlier"\n' + limits
        assert bool(counts(tmp_path, toml, text)) is fires


@pytest.mark.parametrize(
    ("values", "fires"),
    [
        (["2.0"] * 9 + ["nan"] * 3, True),
        (["2.0"] * 9 + ["nan"] * 2, False),
        (["2.0"] * 9 + ["nan"] * 5 + ["2.0"], False),
        (["2.0"] * 9 + ["inf"] * 4, True),
        (["nan"] * 4, False),  # it may be that a scaler looks for its scale
        (["nan"] * 6, True),
    ],
)
def test_what_is_no_number_any_more(tmp_path: Path, values: list[str], fires: bool) -> None:
    lines = [f"2026-03-02 10:00:{at:02d} step={at} step_time=1.0 loss={value}" for at, value in enumerate(values)]
    toml = '[[on]]\nmark = "loss_not_finite"\n'
    toml += condition(type="trend", shape="not-finite", metric="loss", least=3, least_at_start=6)
    assert bool(counts(tmp_path, toml, "\n".join(lines))) is fires


@pytest.mark.parametrize(("gen", "fires"), [(30, True), (60, False)])
def test_parts_that_are_longer_than_the_whole_are_beside_each_other(tmp_path: Path, gen: int, fires: bool) -> None:
    keys = f"timing_s/gen:{gen}.0 - timing_s/reward:40.0 - timing_s/update_actor:20.0 - timing_s/step:95.0"
    toml = '[[on]]\nmetric = "scoring_s"\n[[condition]]\ntype = "compare"\nat_most = "step_s"\n'
    toml += 'metrics = ["scoring_s", "gen_s", "train_s"]\n'
    assert bool(counts(tmp_path, toml, f"(TaskRunner pid=1) step:1 - critic/rewards/mean:0.3 - {keys}")) is fires


def test_what_is_open_is_told_while_it_is(tmp_path: Path) -> None:
    toml = '[[on]]\nopen = "weight-update"\n' + condition(type="compare", metric="idle_s", above=60, within_s=0)
    sent = "2026-03-02 10:00:00 [weights][u1] client.send url=http://i:8000 path=/x op=update_weights"
    later = "2026-03-02 10:05:00 [weights][u2] client.send url=http://i:8000 path=/x op=update_weights"
    quiet, done = "2026-03-02 10:05:00 INFO nothing new", "2026-03-02 10:00:01 [weights][u1] client.done wall_ms=900"
    steps_go_on = "2026-03-02 10:04:40 step=3 step_time=1.0"
    assert counts(tmp_path, toml, f"{sent}\n{quiet}") == [1]
    assert not counts(tmp_path, toml, f"{sent}\n{done}\n{quiet}")
    assert not counts(tmp_path, toml, f"{sent}\n{quiet}", steps_go_on)
    assert not [f for f in found(tmp_path, toml, f"{sent}\n{later}") if f.count and f.lost_s > 0]


def test_advice_fits_the_format(tmp_path: Path) -> None:
    head = '[[advice_for]]\npack = "verl"\nadvice = ["shorter answers"]\ncommands = ["x=1"]\n'
    toml = '[[on]]\nmetric = "step_s"\n' + condition(type="compare", metric="step_s", above=1) + head
    verl = "(TaskRunner pid=1) step:1 - critic/rewards/mean:0.3 - timing_s/gen:30.0 - timing_s/step:95.0"
    assert [(f.advice, f.commands) for f in found(tmp_path, toml, verl)] == [(("shorter answers",), ("x=1",))]
    assert [(f.advice, f.commands) for f in found(tmp_path, toml, steps([4.0]))] == [(("a",), ())]


def test_no_files_are_blamed_where_engines_share_the_gpus_of_the_trainer() -> None:
    session = Session(Config())
    line = "(TaskRunner pid=1) step:{} - timing_s/gen:30.0 - timing_s/reshard:40.0 - timing_s/step:95.0\n"
    text = "".join(line.format(step) for step in range(1, 13)).encode()
    session.feed(session.add_source("verl.log"), Block(text, 0, 1))
    (finding,) = [one for one in session.snapshot().findings if one.signature == "weight-sync-bound"]
    assert "hybrid engine" in finding.advice[0]
    assert "file" not in " ".join(finding.advice)


def test_the_watcher_of_a_run_is_shown_an_update_that_hangs() -> None:
    session = Session(Config())
    lines = [
        f"2026-03-02 10:0{at}:00 [weights][u{at}] client.{leg} url=http://i:8000 path=/x op=update_weights{more}"
        for at in range(3)
        for leg, more in (("send", ""), ("done", " wall_ms=900 rpc_ms=850 queue_ms=50"))
    ]
    lines.append("2026-03-02 10:03:00 [weights][u3] client.send url=http://i:8000 path=/x op=update_weights")
    session.feed(session.add_source("o.log"), Block(("\n".join(lines) + "\n").encode(), 0, 1))
    alignment = session.lay()
    sent = max(update.start or 0.0 for update in session.store.updates)
    for seconds, states in ((20, []), (60, ["firing"])):
        snapshot = session.present((sent - 400, sent + seconds), alignment, sent + seconds)
        assert [f.state for f in snapshot.findings if f.signature == "weight-sync-hung"] == states
