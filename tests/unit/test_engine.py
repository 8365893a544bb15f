"""The engine: a finding's life, what explains what, and what a run without trouble must not show."""

from __future__ import annotations

import pytest

from perfmon.core.config import Config
from perfmon.core.model import Block
from perfmon.demo.scenarios import SCENARIOS
from perfmon.demo.simulation import Simulation
from perfmon.diagnosis.result import Diagnosis, Finding
from perfmon.pipeline.offline import diagnose_texts
from perfmon.pipeline.session import Session

QUEUED = "[weights][{id}] client.done wall_ms={wall} rpc_ms=1000 queue_ms={queue}"


def clock(second: float) -> str:
    """A dated header."""
    whole = int(second)
    return f"2026-03-02 {10 + whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def updates(*queues_ms: float, every_s: int = 60) -> str:
    """A log of weight updates that waited so long."""
    lines = [QUEUED.format(id=f"u{at}", wall=queue + 1000, queue=queue) for at, queue in enumerate(queues_ms)]
    return "\n".join(f"{clock(at * every_s)} {line}" for at, line in enumerate(lines))


def rollouts(*levels: int) -> str:
    """A log of rollouts this stale."""
    result = "[rollout] trunc_pct=1.0 current_step={0} ckpt_step={1} staleness={2}"
    return "\n".join(f"{clock(30 * at)} {result.format(at, at - level, level)}" for at, level in enumerate(levels))


def steady(count: int, every_s: int, first_s: int = 0, text: str = "INFO line {}") -> str:
    """A log that prints a line ever so often."""
    return "\n".join(f"{clock(first_s + at * every_s)} {text.format(at)}" for at in range(count))


def only(snapshot: Diagnosis) -> Finding:
    """Its single finding."""
    [finding] = snapshot.findings
    return finding


# --- life -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("queues_ms", "state", "severity", "count"),
    [
        ([20, 5000], "firing", "critical", 1),
        ([20, 500], "pending", "warning", 1),
        ([20, 500, 500], "firing", "warning", 2),
        ([500, 20, 500], "firing", "warning", 2),
        ([5000, 20], "resolving", "critical", 1),
        ([5000, 20, 20, 5000, 20, 20], "firing", "critical", 2),
        ([5000, 20, 20, 5000, 20, 20, 20], "resolving", "critical", 2),
        ([5000, 500], "firing", "critical", 2),
        ([5000] + [20] * 20, "resolved", "critical", 1),
    ],
)
def test_a_life(queues_ms: list[float], state: str, severity: str, count: int) -> None:
    finding = only(diagnose_texts({"o.log": updates(*queues_ms)}))
    assert (finding.state, finding.severity, finding.count) == (state, severity, count)


def overlapping(*queues_ms: float) -> str:
    """A log of weight updates, sent every second, of which the first one ends last."""
    sends = [f"[weights][u{at}] client.send url=http://i:8000 t={1000 + at}.0" for at in range(len(queues_ms))]
    results = [QUEUED.format(id=f"u{at}", wall=queue + 1000, queue=queue) for at, queue in enumerate(queues_ms)]
    return "\n".join((*sends, *reversed(results)))


@pytest.mark.parametrize(
    ("queues_ms", "state", "count"),
    [
        ([4500, 20, 20, 20], "firing", 1),
        ([4500, 20, 20, 20, 20, 20, 20], "resolving", 1),
        ([4500, 4500, 20, 20, 20, 20], "firing", 2),
        ([4500, 1500, 20, 20], "firing", 2),
        ([900, 20], "pending", 1),
        ([900, 900, 20], "firing", 2),
    ],
)
def test_updates_during_a_slow_one_do_not_resolve_it(queues_ms: list[float], state: str, count: int) -> None:
    finding = only(diagnose_texts({"o.log": overlapping(*queues_ms)}))
    assert (finding.state, finding.count) == (state, count)


def test_what_is_pending_costs_nothing_and_is_no_verdict() -> None:
    snapshot = diagnose_texts({"o.log": updates(20, 990)})
    assert (only(snapshot).state, only(snapshot).lost_s, snapshot.verdict) == ("pending", 0.0, None)


@pytest.mark.parametrize("queues_ms", [[500, 20, 20, 500, 20], [20, 500, 20], [99, 99, 99]])
def test_single_warnings_far_apart_are_nothing(queues_ms: list[float]) -> None:
    assert diagnose_texts({"o.log": updates(*queues_ms)}).findings == ()


def test_rare_updates_do_not_flap() -> None:
    assert only(diagnose_texts({"o.log": updates(5000, 5000, 5000, every_s=1500)})).state == "firing"


# --- evidence and words -----------------------------------------------------------------------------------------
def test_evidence_begins_with_the_figures_of_the_worst_and_keeps_first_and_last() -> None:
    texts = Simulation(SCENARIOS["frontend-queue"], 0, 600)
    texts.run()
    finding = only(diagnose_texts(texts.journal.texts()))
    shown = [line.text for line in finding.evidence]
    waits = [float(text.split("queue_ms=")[1]) for text in shown if "queue_ms=" in text]
    assert waits[0] == max(waits)
    assert ["client.done" in shown[0], "client.send" in shown[1], "client.done" in shown[2]] == [True] * 3
    assert len(waits) >= 3
    assert len(shown) <= 8


def test_a_single_one_is_told_in_the_singular() -> None:
    assert (
        only(diagnose_texts({"o.log": updates(5000)})).sentence
        == "1 of 1 weight update waited 5.0 s, the RPC took 1.0 s"
    )


def test_names_from_logs_fill_no_slots() -> None:
    result = f"[weights][a] client.send url=http://{{lost}}\n{QUEUED.format(id='a', wall=6000, queue=5000)}"
    finding = only(diagnose_texts({"o.log": result}))
    assert finding.identity == {"url": "http://{lost}"}
    assert "an amount" not in finding.sentence


# --- what explains what -----------------------------------------------------------------------------------------
def test_a_symptom_is_linked_to_its_cause_and_never_the_verdict() -> None:
    wait = "{0} DEBUG Waited for batch to arrive for 40.00 seconds"
    step = "{0} SUCCESS Step {1} |  50.0s | Loss -0.0021 | Entropy 0.3"
    trainer = "\n".join(
        line for at in range(8) for line in (wait.format(clock(60 * at + 45)), step.format(clock(60 * at + 55), at))
    )
    queue = QUEUED.replace("rpc_ms=1000", "rpc_ms=1000")
    orchestrator = "\n".join(
        f"{clock(60 * at + 5)} [weights][q{at}] client.send url=http://i:8000\n"
        f"{clock(60 * at + 45)} {queue.format(id=f'q{at}', wall=40000, queue=39000)}"
        for at in range(8)
    )
    alone, both = diagnose_texts({"t": trainer}), diagnose_texts({"t": trainer, "o": orchestrator})
    assert alone.verdict is not None
    assert both.verdict is not None
    assert (alone.verdict.signature, both.verdict.signature) == ("inference-bound", "frontend-queue")
    assert both.verdict.chain == ("inference-bound", "frontend-queue")
    assert {f.signature: f.explained_by for f in both.findings} == {
        "frontend-queue": None,
        "inference-bound": "frontend-queue",
    }


def test_one_wait_told_twice_is_lost_once() -> None:
    lines = [
        f"{clock(60 * at)} [ckpt] wait.start target_step={at}\n"
        f"{clock(60 * at)} INFO Orchestrator paused: waiting for trainer to broadcast checkpoint {at}. Fine.\n"
        f"{clock(60 * at + 30)} INFO Orchestrator resumed: checkpoint {at} ready (after 30.00s)\n"
        f"{clock(60 * at + 30)} [ckpt] wait.done target_step={at} wait_ms=30000\n"
        f"{clock(60 * at + 55)} SUCCESS Step {at} |  55.0s | Reward 0.5 | Max Off-Policy 1"
        for at in range(8)
    ]
    snapshot = diagnose_texts({"o.log": "\n".join(lines)})
    assert snapshot.verdict is not None
    assert snapshot.verdict.signature == "checkpoint-stall"
    assert sum(entry.lost_s for entry in snapshot.ledger if entry.cause.endswith(("stall", "bound"))) <= 8 * 30
    assert next(f for f in snapshot.findings if f.signature == "trainer-bound").explained_by == "checkpoint-stall"


# --- what it cost -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("slow", "severity"), [(1, "warning"), (30, "warning"), (50, "critical")])
def test_one_slow_checkpoint_in_an_hour_is_not_critical(slow: int, severity: str) -> None:
    lines = [
        f"2026-03-02 10:{at:02d}:59 [ckpt] write.done step={at} write_ms={17000 if at < slow else 800}"
        for at in range(60)
    ]
    [finding] = [f for f in diagnose_texts({"t.log": "\n".join(lines)}).findings if f.signature.startswith("slow")]
    assert (finding.count, finding.severity) == (slow, severity)


# --- the async level ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("levels", "found"),
    [
        ([1], set()),
        ([5], {"async-barrier"}),
        ([0, 1, 2, 3, 4, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5], {"async-barrier"}),
        ([3, 5, 4, 5, 5, 3, 5, 5, 4, 5, 5, 5], {"async-barrier"}),
        ([1, 1, 2, 1, 1, 2, 1], set()),
        ([1, 1, 1, 1, 1, 1, 1, 1, 1, 7], {"stale-rollouts"}),
        ([5, 5, 5, 5, 5, 8, 5, 5, 5, 5, 5, 5], {"async-barrier", "stale-rollouts"}),
        ([1] * 12 + [7] * 18, {"stale-rollouts"}),
        ([1, 2, 1, 1, 1, 2, 1, 2, 1, 6, 7, 7, 6, 7, 7, 7, 7, 6], {"stale-rollouts"}),
    ],
)
def test_the_level_that_a_run_keeps_to(levels: list[int], found: set[str]) -> None:
    snapshot = diagnose_texts({"o.log": rollouts(*levels)})
    assert {finding.signature for finding in snapshot.findings} - {"no-weight-updates"} == found


def test_staleness_that_keeps_rising_is_no_barrier() -> None:
    snapshot = diagnose_texts({"o.log": rollouts(0, 1, 1, 2, 3, 3, 4, 5, 5, 6, 7, 7, 8, 9)})
    assert "stale-rollouts" in {finding.signature for finding in snapshot.findings}
    assert snapshot.verdict is None or snapshot.verdict.signature != "async-barrier"


def test_a_configured_level_counts() -> None:
    snapshot = diagnose_texts({"o.log": rollouts(*[5] * 9)}, Config(async_level=8))
    assert "async-barrier" not in {finding.signature for finding in snapshot.findings}


# --- silence --------------------------------------------------------------------------------------------------------
STEPS = "[rollout] trunc_pct=1.0 current_step={0} ckpt_step={0} staleness=1"
DICT = "{{'loss': '0.02', 'learning_rate': '1e-06', 'reward': '0.5', 'step_time': '40', 'epoch': '0.{0}'}}"
CALM = {
    "two lines an hour apart": {"a": f"{clock(0)} INFO start\n{clock(3600)} INFO end"},
    "one line": {"a": f"{clock(0)} INFO start"},
    "sparse beside busy": {"a": steady(40, 600), "b": steady(400, 60)},
    "only sparse": {"a": steady(40, 600)},
    "a log that begins late": {"a": steady(60, 30, 1800, STEPS), "b": steady(60, 60)},
    "a launcher that waits for the end": {
        "a": f"{steady(3, 1)}\n{clock(7200)} INFO end",
        "b": steady(90, 60, 900, STEPS),
    },
    "a log that ended with a farewell": {
        "a": f"{steady(30, 60, 0, STEPS)}\n{clock(1810)} INFO Training finished",
        "b": steady(60, 60),
    },
    "one stamp, then lines without": {
        "a": "\n".join([f"{clock(0)} INFO start", *(DICT.format(at) for at in range(40))]),
        "b": steady(40, 60),
    },
    "some stamps, then lines without": {
        "a": "\n".join([steady(30, 5), *(DICT.format(at) for at in range(40))]),
        "b": steady(400, 60),
    },
    "a model that loads for long": {"a": "\n".join([steady(5, 1), steady(60, 20, 900, STEPS)])},
}


@pytest.mark.parametrize("logs", [pytest.param(logs, id=name) for name, logs in CALM.items()])
def test_no_alarm_for_logs_that_are_just_quiet(logs: dict[str, str]) -> None:
    snapshot = diagnose_texts(logs)
    assert (snapshot.verdict, snapshot.findings) == (None, ())


def test_a_busy_log_that_ends_while_another_goes_on_is_told() -> None:
    snapshot = diagnose_texts({"a.log": steady(60, 5), "b.log": steady(60, 30)})
    finding = only(snapshot)
    assert (finding.signature, finding.identity) == ("source-silent", {"source": "a.log"})


# --- parts of a run -------------------------------------------------------------------------------------------------
def session(scenario: str) -> Session:
    """A session that has read a built-in run."""
    simulation = Simulation(SCENARIOS[scenario], 0, 600)
    simulation.run()
    held = Session(Config())
    for name, text in simulation.journal.texts().items():
        held.feed(held.add_source(name), Block(text.encode(), 0, 1))
    return held


@pytest.mark.parametrize("scenario", ["healthy", "frontend-queue", "stall", "inference-bound", "trainer-bound"])
def test_any_part_of_a_run_is_shared_out(scenario: str) -> None:
    held = session(scenario)
    for since, until in [("5m", None), ("1m", None), (None, "300"), ("300", "310"), ("0", "1"), (None, "5")]:
        snapshot = held.snapshot(since, until)
        assert sum(entry.share for entry in snapshot.ledger) == pytest.approx(1.0)
        assert all(entry.lost_s >= 0 for entry in snapshot.ledger)
        assert all(0 <= f.first_s <= f.last_s <= snapshot.run.wall_s for f in snapshot.findings)
        assert all(0 <= row.start_s <= row.end_s <= snapshot.run.wall_s for row in snapshot.timeline)
        assert scenario != "healthy" or snapshot.findings == ()


def test_the_middle_of_a_stall_is_a_stall() -> None:
    snapshot = session("stall").snapshot("400", "410")
    assert snapshot.verdict is not None
    assert snapshot.verdict.signature == "stall"
    assert snapshot.verdict.lost_share == pytest.approx(1.0)


def test_the_first_samples_of_a_part_are_not_the_first_of_the_run() -> None:
    whole, part = session("inference-bound").snapshot(), session("inference-bound").snapshot("5m")
    assert only(whole).count > only(part).count >= 8


@pytest.mark.parametrize("logs", [{}, {"a": ""}, {"a": "hello\nworld"}, {"a": QUEUED.format(id=1, wall=0, queue=0)}])
def test_a_run_of_nothing_is_nothing(logs: dict[str, str]) -> None:
    snapshot = diagnose_texts(logs)
    assert (snapshot.verdict, snapshot.findings, snapshot.run.wall_s) == (None, (), 0.0)


def test_logs_without_clocks_add_up() -> None:
    queued = "\n".join(QUEUED.format(id=at, wall=31000, queue=30000) for at in range(4))
    writes = "\n".join(f"[ckpt] write.done step={at} write_ms=9000" for at in range(3))
    snapshot = diagnose_texts({"a": queued, "b": writes})
    assert snapshot.run.wall_s == pytest.approx(124.0)
    assert sum(entry.lost_s for entry in snapshot.ledger) == pytest.approx(124.0)


# --- weight updates that are slow in both parts ---------------------------------------------------------------
@pytest.mark.parametrize(
    ("rpc_ms", "queue_ms", "signature", "confidence"),
    [
        (6000, 20000, "frontend-queue", 2 / 3),
        (1000, 20000, "frontend-queue", 1.0),
        (20000, 6000, "slow-weight-load", 1 / 2),
        (15000, 150, "slow-weight-load", 1 / 2),
        (15000, 50, "slow-weight-load", 1.0),
    ],
)
def test_the_longer_part_of_an_update_is_named(rpc_ms: int, queue_ms: int, signature: str, confidence: float) -> None:
    result = "{} [weights][u{}] client.done wall_ms={} rpc_ms={} queue_ms={}"
    log = "\n".join(result.format(clock(60 * at), at, rpc_ms + queue_ms, rpc_ms, queue_ms) for at in range(5))
    finding = only(diagnose_texts({"o.log": log}))
    assert (finding.signature, finding.severity) == (signature, "critical")
    assert finding.confidence == pytest.approx(confidence)


# --- silence that is no stall ---------------------------------------------------------------------------------
ENGINE = (
    "INFO {} [loggers.py:127] Engine 000: Avg prompt throughput: 100.0 tokens/s, Avg generation throughput: {} "
    "tokens/s, Running: 12 reqs, Waiting: 0 reqs, GPU KV cache usage: 50.0%, Prefix cache hit rate: 0.0%"
)


def test_a_server_that_is_silent_when_idle_does_not_stall() -> None:
    times = [10 * at for at in range(30)] + [900 + 10 * at for at in range(30)]
    log = "\n".join(ENGINE.format(clock(time)[5:], 900.0) for time in times)
    snapshot = diagnose_texts({"vllm.log": log})
    assert snapshot.findings == ()
    assert {entry.cause: entry.lost_s for entry in snapshot.ledger} == {"productive": 600.0, "unaccounted": 590.0}


def test_start_up_before_the_first_event_is_no_stall() -> None:
    result = [f"{clock(0)} INFO loading", f"{clock(600)} INFO loaded", updates(*[20.0] * 30)]
    begun = result[2].replace(" 10:", " 11:")
    assert diagnose_texts({"o.log": "\n".join([*result[:2], begun])}).findings == ()


def test_logs_of_two_runs_are_judged_over_the_time_that_they_cover() -> None:
    queued = updates(*[20000.0] * 30)
    snapshot = diagnose_texts({"new.log": queued, "old.log": steady(5, 60).replace("2026-03", "2025-11")})
    assert snapshot.verdict is not None
    assert snapshot.verdict.signature == "frontend-queue"
    assert snapshot.run.wall_s == pytest.approx(1980)
    assert sum(entry.share for entry in snapshot.ledger) == pytest.approx(1.0)
    assert any("another run" in note for note in snapshot.run.sources[0].notes)


def test_the_hour_that_summer_time_takes_is_no_stall() -> None:
    seconds = [60 * at + (3600 if at >= 30 else 0) for at in range(60)]
    result = "2026-03-29 {:02d}:{:02d}:00 [rollout] trunc_pct=1.0 current_step={} ckpt_step={} staleness=1"

    def log(hour: int) -> str:
        times = [hour * 60 + 30 + second // 60 for second in seconds]
        return "\n".join(result.format(t // 60, t % 60, at + 1, at) for at, t in enumerate(times))

    night, day = diagnose_texts({"o.log": log(1)}), diagnose_texts({"o.log": log(9)})
    assert night.findings == ()
    assert night.run.sources[0].notes == ("jumps by 1h 01m at night: a daylight saving change, not a stall",)
    assert only(day).signature == "stall"
    assert day.run.sources[0].notes == ()


def test_shares_of_no_time_at_all_are_unaccounted_for() -> None:
    ledger = diagnose_texts({"o.log": "2026-03-02 10:00:00 INFO started"}).ledger
    assert {entry.cause: entry.share for entry in ledger} == {"productive": 0.0, "unaccounted": 1.0}


def test_a_sentence_tells_values_that_were_seen() -> None:
    finding = only(diagnose_texts({"o.log": updates(2000, 30000)}))
    assert "waited 2.0 s (at most 30.0 s)" in finding.sentence


def test_overlaps_of_any_two_kinds_are_told() -> None:
    queued = QUEUED.format(id="a", wall=9000, queue=8000)
    log = f"{clock(60)} [ckpt] write.done step=1 write_ms=30000\n{clock(50)} {queued}"
    rows = diagnose_texts({"o.log": log}).timeline
    assert {row.kind: row.overlaps for row in rows} == {
        "weight-update": ("checkpoint-write 1",),
        "checkpoint-write": ("weight-update a",),
    }


def _sent(name: str, second: float, wall_s: float) -> str:
    result = f"[weights][{name}] client.send url=http://{name}:8000 path=/w t=1.0"
    done = f"[weights][{name}] client.done wall_ms={wall_s * 1000:.0f} rpc_ms=900.0 queue_ms=10.0"
    return f"{clock(second)} {result}\n{clock(second + wall_s)} {done}\n"


def test_updates_of_several_servers_at_once_are_told_as_such() -> None:
    log = _sent("a", 0, 3) + _sent("b", 1, 3) + _sent("c", 10, 2)
    rows = diagnose_texts({"o.log": log}).timeline
    assert {row.key: row.overlaps for row in rows} == {
        "a": ("weight-update b http://b:8000",),
        "b": ("weight-update a http://a:8000",),
        "c": (),
    }


def test_of_many_updates_at_once_some_are_named() -> None:
    rows = diagnose_texts({"o.log": "".join(_sent(name, 0, 3) for name in "abcdefg")}).timeline
    assert [len(row.overlaps) for row in rows] == [5] * 7
    assert rows[0].overlaps[0] == "weight-update b http://b:8000"
    assert rows[0].overlaps[-1] == "and more weight updates"


def test_samples_that_are_not_judged_are_not_counted() -> None:
    result = '{{"step": {}, "time": {}, "time/step": 60.0, "time/wait_for_batch": 45.0, "time/forward_backward": 10.0}}'
    log = "\n".join(result.format(at, 1787300000.0 + 60 * at) for at in range(5))
    [finding] = [f for f in diagnose_texts({"m.jsonl": log}).findings if f.signature == "inference-bound"]
    assert "in 3 of 3 steps the trainer waited for its batch" in finding.sentence


def test_an_undated_line_breaks_a_silence() -> None:
    result = (
        " [{}.000000] iteration {:8d}/    1000 | consumed samples:  7168 | elapsed time per iteration (ms): 5000.0 | "
        "learning rate: 1.0E-05 | global batch size:   256 | lm loss: 2.0E+00 | loss scale: 1.0 | grad norm: 1.0 |"
    )
    lines = [result.format(clock(5 * at + (400 if at > 20 else 0)), at) for at in range(1, 41)]
    assert only(diagnose_texts({"m.log": "\n".join(lines)})).signature == "stall"
    lines.insert(20, " validation loss at iteration 20 | lm loss value: 2.0E+00 | lm loss PPL: 7.0E+00 |")
    assert diagnose_texts({"m.log": "\n".join(lines)}).findings == ()


def test_silence_over_new_year_is_known() -> None:
    before = [ENGINE.format(f"12-31 23:{at:02d}:00", 900.0) for at in range(30, 50)]
    after = [ENGINE.format(f"01-01 00:{at:02d}:00", 900.0) for at in range(50, 60)]
    [unknown] = [e for e in diagnose_texts({"v.log": "\n".join(before + after)}).ledger if e.cause == "unaccounted"]
    assert unknown.lost_s == pytest.approx(59 * 60)
