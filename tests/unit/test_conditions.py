"""Every kind of condition, as a user writes it: a signature in TOML, a log, and whether it is found."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from perfmon.core.config import Config
from perfmon.core.errors import DataFileError
from perfmon.diagnosis.result import Finding
from perfmon.pipeline.offline import diagnose_texts
from perfmon.rules.signatures import load_signature

HEAD = """
schema = 1
id = "mine"
title = "Mine"
kind = "bottleneck"
rank = 5
meaning = "m"
sentence = "{count} of {total:sample}"
advice = ["a"]
"""
ON_KV = '[[on]]\nmetric = "kv_usage"\n'
ON_WRITES = '[[on]]\nspan = "checkpoint-write"\n'


def found(tmp_path: Path, toml: str, *logs: str, head: str = "") -> list[Finding]:
    """What a signature finds in logs."""
    (tmp_path / "mine.toml").write_text(HEAD + head + toml)
    config = Config(signature_dirs=(tmp_path,))
    snapshot = diagnose_texts({f"{at}.log": log for at, log in enumerate(logs)}, config)
    return [finding for finding in snapshot.findings if finding.signature == "mine"]


def samples(metric: str, values: Iterable[float], every_s: int = 10, start_s: int = 0) -> str:
    """A dated log with one sample a line."""
    lines = []
    for at, value in enumerate(values):
        second = start_s + at * every_s
        clock = f"{10 + second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
        lines.append(f"2026-03-02 {clock},000 - INFO - engine {metric}={value}")
    return "\n".join(lines)


def condition(**keys: object) -> str:
    """A [[condition]] table."""

    def spelled(value: object) -> str:
        return f'"{value}"' if isinstance(value, str) else str(value).lower()

    return "[[condition]]\n" + "".join(f"{key} = {spelled(value)}\n" for key, value in keys.items())


@pytest.mark.parametrize(
    ("limits", "values", "count"),
    [
        ({"above": 90}, [50, 90, 91, 99], 2),
        ({"below": 20}, [50, 20, 19], 1),
        ({"above": 10, "below": 20}, [5, 15, 25], 1),
        ({"band": "critical"}, [79, 85, 95], 2),
        ({"band": "critical"}, [79, 85, 79], 0),
        ({"band": "good"}, [79, 85], 1),
        ({"band": "not-critical"}, [79, 85, 95], 2),
        ({"band": "reached"}, [79, 80, 95], 2),
        ({"band": "at-limit"}, [79, 80, 95], 1),
    ],
)
def test_threshold(tmp_path: Path, limits: dict[str, object], values: list[float], count: int) -> None:
    toml = ON_KV + condition(type="compare", metric="kv_usage", **limits)
    fired = [f for f in found(tmp_path, toml, samples("kv_usage", values)) if f.state != "pending"]
    assert sum(finding.count for finding in fired) == count


@pytest.mark.parametrize(
    ("stat", "more", "limit"),
    [
        ("mean", {}, 50),
        ("p50", {}, 40),
        ("p95", {}, 85),
        ("max", {}, 90),
        ("min", {}, 20),
        ("sum", {}, 150),
        ("count", {}, 3),
        ("growth", {}, 4.5),
        ("share_above", {"limit": 30}, 66.6),
        ("share_below", {"limit": 30}, 33.3),
    ],
)
def test_aggregate(tmp_path: Path, stat: str, more: dict[str, object], limit: float) -> None:
    """Over 20, 40, 90 the statistic is `limit` or a little more: just below fires, beyond does not."""
    text = samples("kv_usage", [20, 40, 90])
    keys = {"type": "compare", "metric": "kv_usage", "stat": stat, "window_n": 3, "least": 3, **more}
    assert found(tmp_path, ON_KV + condition(**keys, above=limit - 1), text)
    assert not found(tmp_path, ON_KV + condition(**keys, above=limit + 1), text)


def test_the_age_of_a_metric_is_the_time_since_it_was_first_above_a_limit(tmp_path: Path) -> None:
    keys = {"type": "compare", "metric": "kv_usage", "stat": "age", "limit": 10}
    text = samples("kv_usage", [0, 5, 40, 3, 90])
    assert found(tmp_path, ON_KV + condition(**keys, above=19), text)
    assert not found(tmp_path, ON_KV + condition(**keys, above=20), text)
    assert not found(tmp_path, ON_KV + condition(**keys, above=0), samples("kv_usage", [0, 5, 10]))


def test_an_aggregate_over_seconds_forgets(tmp_path: Path) -> None:
    keys = {"type": "compare", "metric": "kv_usage", "stat": "sum", "window_s": 25, "above": 150}
    assert found(tmp_path, ON_KV + condition(**keys), samples("kv_usage", [60, 60, 60]))
    assert not found(tmp_path, ON_KV + condition(**keys), samples("kv_usage", [60, 60, 60], every_s=20))


def test_an_aggregate_counts_marks(tmp_path: Path) -> None:
    keys = {"type": "compare", "metric": "cancelled", "of": "mark", "stat": "count", "window_s": 600, "above": 20}
    result = "2026-03-02 10:00:05 WARNING Cancelled {} train episodes past max_off_policy_steps=8. Consider it."
    usage = samples("kv_usage", [1, 2, 3])
    assert found(tmp_path, ON_KV + condition(**keys), usage, result.format(21))
    assert not found(tmp_path, ON_KV + condition(**keys), usage, result.format(20))


def test_ratio(tmp_path: Path) -> None:
    keys = {"type": "compare", "metric": "waiting", "over": "running", "window_n": 1, "above": 0.5}
    toml = '[[on]]\nmetric = "waiting"\n' + condition(**keys)
    busy, full = "engine running=100 waiting=50", "engine running=100 waiting=51"
    assert not found(tmp_path, toml, f"2026-03-02 10:00:00,000 - INFO - {busy} kv_usage=1")
    assert found(tmp_path, toml, f"2026-03-02 10:00:00,000 - INFO - {full} kv_usage=1")
    assert not found(tmp_path, toml, "2026-03-02 10:00:00,000 - INFO - engine running=0 waiting=9 kv_usage=1")


def test_coincides(tmp_path: Path) -> None:
    keys = {"type": "overlap", "span": "weight-update", "metric": "queue_ms", "above": 1000}
    toml = ON_WRITES + condition(**keys)
    write = "[ckpt] write.done step=1 write_ms=8000.0"
    update = "[weights][a] client.done wall_ms=9000 rpc_ms=1000 queue_ms={}"
    assert found(tmp_path, toml, f"{update.format(8000)}\n", f"{write}\n")
    assert not found(tmp_path, toml, f"{update.format(900)}\n", f"{write}\n")
    assert not found(tmp_path, toml, f"{update.format(8000)}\n{write}\n"), "one after the other"
    assert not found(tmp_path, toml, write), "no update at all is unknown, not false"


def test_baseline(tmp_path: Path) -> None:
    keys = {
        "type": "duration",
        "than": "undisturbed",
        "span": "checkpoint-write",
        "apart_from": "weight-update",
        "factor": 3,
    }
    writes = "".join(f"[ckpt] write.done step={at} write_ms={ms}\n" for at, ms in enumerate([100, 110, 90, 400, 200]))
    assert [f.count for f in found(tmp_path, ON_WRITES + condition(**keys), writes)] == [1]


def test_absence(tmp_path: Path) -> None:
    toml = '[[on]]\nabsence = "checkpoint-write"\n' + condition(type="duration", than="usual", factor=3)

    def writes(*seconds: int) -> str:
        lines = [f"2026-03-02 10:{s // 60:02d}:{s % 60:02d} [ckpt] write.done step={s} write_ms=1" for s in seconds]
        return "\n".join(lines)

    assert found(tmp_path, toml, writes(0, 20, 40, 60, 180, 200))
    assert not found(tmp_path, toml, writes(0, 20, 40, 60, 110, 130))
    assert not found(tmp_path, toml, writes(0, 20, 40)), "the end of a log is no absence"


def test_any(tmp_path: Path) -> None:
    toml = ON_KV + (
        '[[condition]]\ntype = "any"\nof = [\n{ type = "compare", metric = "kv_usage", above = 90 },\n'
        '{ type = "compare", metric = "kv_usage", below = 10 },\n]\n'
    )
    assert [f.count for f in found(tmp_path, toml, samples("kv_usage", [5, 50, 95]))] == [2]


def test_a_condition_is_worded_with_its_value_and_limit_and_of_alternatives_the_one_that_holds(tmp_path: Path) -> None:
    toml = ON_KV + condition(type="compare", metric="kv_usage", above=90)
    toml += condition(type="compare", metric="kv_usage", stat="max", window_s=600, above=99, role="supporting")
    toml += (
        '[[condition]]\ntype = "any"\nof = [\n{ type = "compare", metric = "kv_usage", below = 10 },\n'
        '{ type = "all", of = [{ type = "compare", metric = "kv_usage", above = 0 }, { type = "compare",'
        ' metric = "kv_usage", above = 80, say = "the cache is {value} full; limit {limit}" }] },\n]\n'
    )
    [finding] = found(tmp_path, toml, samples("kv_usage", [95]))
    assert [(state.text, state.value, state.limit) for state in finding.conditions] == [
        ("KV cache use 95.0 % (> 90 %)", "kv_usage 95.0 %", "> 90 %"),
        ("KV cache use 95.0 % (max of 10m, > 99 %)", "max of kv_usage over 600 s 95.0 %", "> 99 %"),
        ("the cache is 95.0 % full; limit 80 %", "kv_usage 95.0 %", "> 80 %"),
    ]


@pytest.mark.parametrize(
    ("limits", "value", "result"),
    [
        ({"band": "critical"}, 95, "critical > 90 %"),
        ({"band": "critical"}, 85, "warning > 80 %"),
        ({"band": "not-critical"}, 20, "good < 80 %"),
        ({"band": "reached"}, 80, "limit 80 %"),
    ],
)
def test_the_limit_of_a_threshold_is_that_which_makes_the_value_what_it_is(
    tmp_path: Path, limits: dict[str, str], value: float, result: str
) -> None:
    toml = ON_KV + condition(type="compare", metric="kv_usage", **limits)
    (state,) = found(tmp_path, toml, samples("kv_usage", [value] * 3))[0].conditions
    assert state.limit == result


def test_what_a_condition_says_has_no_unknown_slots(tmp_path: Path) -> None:
    toml = ON_KV + condition(type="compare", metric="kv_usage", above=90, say="{value} of {what}")
    with pytest.raises(DataFileError, match="expected no other slots"):
        found(tmp_path, toml, samples("kv_usage", [95]))


def test_conditions_that_need_not_hold_only_lower_the_confidence(tmp_path: Path) -> None:
    toml = ON_KV + condition(type="compare", metric="kv_usage", above=90)
    toml += condition(type="compare", metric="kv_usage", above=99, role="supporting")
    toml += condition(type="compare", metric="running", above=9, if_missing="pass")
    [finding] = found(tmp_path, toml, samples("kv_usage", [95]))
    assert [state.held for state in finding.conditions] == [True, False, None]
    assert finding.confidence == pytest.approx(1 / 3)


def test_for_s_wants_it_to_last(tmp_path: Path) -> None:
    toml = ON_KV + condition(type="compare", metric="kv_usage", above=90)
    states = [
        [f.state for f in found(tmp_path, toml, samples("kv_usage", [95] * count), head="for_s = 30\n")]
        for count in (3, 4)
    ]
    assert states == [["pending"], ["firing"]]


@pytest.mark.parametrize("key", ["for_s", "keep_firing_for_s", "skip_first", "every_s"])
def test_nothing_lasts_less_than_no_time(tmp_path: Path, key: str) -> None:
    toml = ON_KV + condition(type="compare", metric="kv_usage", above=90)
    with pytest.raises(DataFileError, match=f"{key}: expected a number of 0 or more"):
        found(tmp_path, toml, samples("kv_usage", [95]), head=f"{key} = -60\n")


def test_for_count_wants_neighbours(tmp_path: Path) -> None:
    toml = ON_KV + condition(type="compare", metric="kv_usage", above=90)
    head = "critical_count = [2, 3]\nkeep_firing_for_s = 100\n"
    assert not found(tmp_path, toml, samples("kv_usage", [95, 1, 1, 95, 1]), head=head)
    assert [f.count for f in found(tmp_path, toml, samples("kv_usage", [1, 95, 1, 95, 1]), head=head)] == [2]


def test_skipped_samples_are_behind_every_window(tmp_path: Path) -> None:
    keys = {"type": "compare", "metric": "kv_usage", "stat": "max", "window_s": 600, "above": 90}
    text = samples("kv_usage", [99, 99, 10, 10])
    assert found(tmp_path, ON_KV + condition(**keys), text)
    assert not found(tmp_path, ON_KV + condition(**keys), text, head="skip_first = 2\n")


def test_a_clear_limit_carries_on_what_fires_and_begins_nothing(tmp_path: Path) -> None:
    toml = ON_KV + condition(type="compare", metric="kv_usage", above=90, clear=80)
    states = [
        [(f.state, f.count) for f in found(tmp_path, toml, samples("kv_usage", values))]
        for values in ([95, 85], [95, 80], [85, 85])
    ]
    assert states == [[("firing", 1)], [("resolving", 1)], []]


def test_findings_are_told_apart_by_identity(tmp_path: Path) -> None:
    toml = '[[on]]\nspan = "weight-update"\n' + condition(type="compare", metric="queue_ms", above=1000)
    log = "".join(
        f"[weights][{at}] client.send url=http://10.0.0.{at % 2}:8000\n"
        f"[weights][{at}] client.done wall_ms=9000 rpc_ms=1000 queue_ms=8000\n"
        for at in range(5)
    )
    apart = found(tmp_path, toml, log, head='identity = ["url"]\n')
    assert [(f.identity["url"], f.count) for f in apart] == [("http://10.0.0.0:8000", 3), ("http://10.0.0.1:8000", 2)]
    assert [f.count for f in found(tmp_path, toml, log)] == [5]


@pytest.mark.parametrize(
    ("toml", "key"),
    [
        (condition(type="compare", metric="kv_usage"), "condition[0].above"),
        (condition(type="compare", metric="kv_usage", above=9, clear=10), "condition[0].clear"),
        (condition(type="compare", metric="kv_usage", band="good", clear=10), "condition[0].clear"),
        (condition(type="compare", metric="kv_usage", band="bad"), "condition[0].band"),
        (condition(type="compare", metric="kv_usage", stat="mode", window_n=3, above=1), "condition[0].stat"),
        (condition(type="compare", metric="kv_usage", stat="max", above=1), "condition[0].window_s"),
        (condition(type="compare", metric="a", over="b", band="good"), "condition[0].band"),
        (condition(type="compare", metric="a", over="b", above=1, window_n=0), "condition[0].window_n"),
        (condition(type="duration", than="fun"), "condition[0].than"),
        (condition(type="any"), "condition[0].of"),
        (condition(type="magic"), "condition[0].type"),
        ("", "condition"),
    ],
)
def test_a_mistake_names_its_key(tmp_path: Path, toml: str, key: str) -> None:
    (tmp_path / "mine.toml").write_text(HEAD + ON_KV + toml)
    with pytest.raises(DataFileError) as caught:
        load_signature(tmp_path / "mine.toml")
    assert caught.value.key == key
