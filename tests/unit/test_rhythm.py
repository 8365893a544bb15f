"""A run that stops is told soon where its own rhythm says so, and no pause is told that goes with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from perfmon.clocks.adjustments import ClockWatch
from perfmon.clocks.alignment import align
from perfmon.core.config import Config
from perfmon.core.model import Block
from perfmon.diagnosis.result import Finding
from perfmon.pipeline.session import Session

_ENGINE = (
    "INFO 08-21 {} [loggers.py:127] Engine 000: Avg prompt throughput: 100.0 tokens/s, Avg generation throughput: "
    "900.0 tokens/s, Running: 12 reqs, Waiting: 0 reqs, GPU KV cache usage: 50.0%, Prefix cache hit rate: 0.0%"
)
_QUICK = tuple(range(0, 120, 4))


def _clock(second: float) -> str:
    return f"{10 + int(second) // 3600}:{int(second) // 60 % 60:02d}:{int(second) % 60:02d}"


def _orchestrator(steps: Iterable[int], last: Sequence[str] = (), first: int = 0) -> list[str]:
    result = [
        f"2026-08-21 {_clock(at)} [rollout] trunc_pct=2.0 current_step={step} ckpt_step={step} staleness=0"
        for step, at in enumerate(steps, first)
    ]
    return [*result, *last]


def _trainer(steps: Iterable[int]) -> list[str]:
    return [f"2026-08-21 {_clock(at + late)} INFO working" for at in steps for late in (1, 2)]


def _session(**logs: list[str]) -> Session:
    session = Session(Config())
    for name, lines in logs.items():
        session.feed(session.add_source(f"{name}.log"), Block("\n".join([*lines, ""]).encode(), 0, 1))
    return session


def _stalls(session: Session, silent_s: float | None = None) -> list[Finding]:
    """What is said of the whole of it; or, where somebody waits, so long after its last line."""
    if silent_s is None:
        snapshot = session.snapshot()
    else:
        now = max(state.last or 0.0 for state in session.store.sources) + silent_s
        snapshot = session.present((now - 600, now), align(session.store), now)
    return [finding for finding in snapshot.findings if finding.signature == "stall"]


def _run(steps: Sequence[int] = _QUICK, last: Sequence[str] = ()) -> Session:
    return _session(orchestrator=_orchestrator(steps, last), trainer=_trainer(steps))


@pytest.mark.parametrize("silent_s", [31, 59])
def test_a_run_of_quick_steps_that_stops_is_told_within_seconds(silent_s: int) -> None:
    (stall,) = _stalls(_run(), silent_s)
    assert stall.lost_s == pytest.approx(silent_s, abs=0.1)
    assert {evidence.source for evidence in stall.evidence} == {"orchestrator.log", "trainer.log"}


def test_and_is_still_one_when_it_goes_on() -> None:
    run = _run([*_QUICK, *(at + 160 for at in _QUICK)])
    for stall in (*_stalls(run), *_stalls(run, 1)):
        assert stall.lost_s == pytest.approx(160 + 120 - 118 - 120, abs=5.0)
    assert len(_stalls(run)) == len(_stalls(run, 1)) == 1


def test_a_pause_that_no_step_would_notice_is_none() -> None:
    assert not _stalls(_run(), 14)


@pytest.mark.parametrize(("every_s", "silent_s"), [(20, 59), (120, 300), (7, 20)])
def test_slow_steps_take_their_time(every_s: int, silent_s: int) -> None:
    assert not _stalls(_run(range(0, 40 * every_s, every_s)), silent_s)


def test_steps_of_which_some_are_long_are_waited_for() -> None:
    steps, at = [], 0
    for step in range(60):
        at += 25 if step % 10 == 9 else 4
        steps.append(at)
    assert not _stalls(_run(steps), 40)


@pytest.mark.parametrize("pause_s", [20, 30, 50])
def test_a_pause_that_has_been_made_before_is_usual(pause_s: int) -> None:
    """An evaluation that no line tells of, every hundredth step."""
    steps, at = [], 0
    for step in range(320):
        at += pause_s if step % 100 == 99 else 4
        steps.append(at)
    assert not _stalls(_run(steps))
    assert not _stalls(_run(steps), pause_s)


def test_without_a_history_there_is_no_rhythm() -> None:
    assert not _stalls(_run(_QUICK[:3]), 50)
    assert _stalls(_run(_QUICK[:8]), 31)


@pytest.mark.parametrize(
    "last",
    [
        "INFO Saving the checkpoint (or staging if async is enabled).",
        "INFO Starting evaluation on gsm8k",
        "INFO Capturing CUDA graphs",
        "WARNING torch.compile: compiling the model for a new shape",
    ],
)
def test_long_work_that_was_announced_has_ten_minutes(last: str) -> None:
    announced = _run(last=[f"2026-08-21 {_clock(_QUICK[-1] + 3)} {last}"])
    assert not _stalls(announced, 580)
    assert _stalls(announced, 620)


def test_lines_without_a_time_are_a_sign_of_life() -> None:
    bars = [f"Evaluating: {at}%|####      | {at}/100" for at in range(10)]
    assert not _stalls(_run(last=bars), 50)
    steps = _orchestrator(_QUICK)
    later = _orchestrator((at + 160 for at in _QUICK), first=len(_QUICK))
    alive = [*steps, *bars, *later]
    silent = [*steps, *later]
    assert not _stalls(_session(orchestrator=alive))
    assert _stalls(_session(orchestrator=silent))


def test_a_log_that_ended_long_before_says_nothing() -> None:
    launcher = [f"2026-08-21 {_clock(at)} INFO launching" for at in (0, 30)]
    assert _stalls(_session(orchestrator=_orchestrator(_QUICK), launcher=launcher), 35)


def test_a_server_that_is_idle_is_no_stall() -> None:
    engine = [_ENGINE.format(_clock(at)) for at in range(0, 120, 2)]
    assert not _stalls(_session(vllm=engine), 50)
    assert _stalls(_session(vllm=engine, orchestrator=_orchestrator(_QUICK)), 35)


@pytest.mark.parametrize(("burst_s", "silent_s"), [(40, 45), (80, 100)])
def test_lines_that_come_in_bursts_are_waited_for(burst_s: int, silent_s: int) -> None:
    """A log that is written through a buffer: what it says was printed long before somebody can read it."""
    session, arrivals = Session(Config()), ClockWatch()
    state = session.add_source("trainer.log")
    offset = line = 0
    for begin in range(0, 6 * burst_s, burst_s):
        lines = _orchestrator(range(begin, begin + burst_s, 4))
        data = "\n".join([*lines, ""]).encode()
        session.feed(state, Block(data, offset, line + 1))
        arrivals.observe(state, (state.last or 0.0) + 0.5, None)
        offset, line = offset + len(data), line + len(lines)
    assert not _stalls(session, silent_s)
    state.held_s = 0.0
    assert _stalls(session, silent_s)


def test_a_bar_that_moves_in_place_is_a_sign_of_life() -> None:
    session, arrivals = _run(), ClockWatch()
    state = session.store.sources[0]
    arrivals.observe(state, 0.0, None)
    assert _stalls(session, 35)
    arrivals.observe(state, 25.0, None)
    assert not _stalls(session, 35)
    assert _stalls(session, 70), "a sign of life at one moment is none for ever"


def test_what_follows_a_full_bar_has_its_time() -> None:
    def bar(at: int) -> str:
        elapsed = f"{at // 30:02d}:{2 * at % 60:02d}"
        return f"2026-08-21 {_clock(2 * at)} INFO Epoch 3: {at}%|####      | {at}/100 [{elapsed}<00:10,  2.00s/it]"

    half = _session(trainer=[bar(at) for at in range(1, 51)])
    full = _session(trainer=[bar(at) for at in range(1, 101)])
    assert _stalls(half, 120)
    assert not _stalls(full, 250)
    assert _stalls(full, 400)


def _gpu(loads: Sequence[tuple[int, int]], index: int = 0) -> list[str]:
    """A GPU that is polled every second: (seconds, load in %), one after the other."""
    each = [load for seconds, load in loads for _ in range(seconds)]
    return [
        f"2026-08-21 {_clock(at)}.000 [poll] gpu host=n1 name={index} util_pct={load - at % 2} state=ok"
        for at, load in enumerate(each)
    ]


def _paused_at(seconds: Sequence[tuple[int, int]], until: int) -> list[int]:
    """A step every second, but for the pauses (start, end)."""
    return [at for at in range(until) if not any(start <= at < end for start, end in seconds)]


@pytest.mark.parametrize("pauses", [[(300, 390), (690, 780), (1080, 1170)], [(210, 300), (520, 610), (820, 910)]])
def test_pauses_that_recur_are_no_stalls_though_hundreds_of_steps_are_between_them(
    pauses: list[tuple[int, int]],
) -> None:
    whole = _session(orchestrator=_orchestrator(_paused_at(pauses, 1200)))
    assert _stalls(whole) == []


@pytest.mark.parametrize("last", [(900, 1200), (700, 1000)])
def test_one_that_is_far_longer_or_comes_at_another_time_is_a_stall(last: tuple[int, int]) -> None:
    pauses = [(210, 250), (520, 560), last]
    assert len(_stalls(_session(orchestrator=_orchestrator(_paused_at(pauses, 1300))))) == 1


def _with_gpus(*gpus: Sequence[tuple[int, int]], paused_s: int = 200) -> Session:
    logs = {f"gpu{index}": _gpu(loads, index) for index, loads in enumerate(gpus)}
    return _session(orchestrator=_orchestrator(_paused_at([(300, 300 + paused_s)], 1000)), **logs)


def test_a_pause_in_which_all_gpus_at_work_go_on_is_no_stall() -> None:
    assert _stalls(_with_gpus([(300, 97), (200, 62), (500, 97)], [(300, 90), (200, 45), (500, 90)])) == []


@pytest.mark.parametrize(
    "second", [[(300, 90), (200, 1), (500, 90)], [(300, 90), (200, 101), (500, 90)]], ids=["idle", "spins"]
)
def test_a_gpu_that_idles_or_spins_in_a_pause_proves_no_work(second: list[tuple[int, int]]) -> None:
    """One that waits for a collective is fully busy."""
    assert len(_stalls(_with_gpus([(300, 97), (200, 62), (500, 97)], second))) == 1


def test_a_stall_begins_where_the_gpus_stop() -> None:
    (stall,) = _stalls(_with_gpus([(300, 97), (80, 62), (120, 1), (500, 97)]))
    assert stall.lost_s == pytest.approx(120, abs=2)
