"""Bars and step lines of trainers: how far, how quickly, when; several lines of one step; losses that are nan."""

from __future__ import annotations

import json

import pytest
from feeding import feed

from perfmon.core.config import Config
from perfmon.pipeline.session import Session
from perfmon.reports.json_report import document
from perfmon.store.source_state import SourceState

BLANK = "\r" + 60 * " " + "\r"


def _bar(done: int, total: int, elapsed_s: int, name: str = "", more: str = "") -> str:
    clock = f"{elapsed_s // 60:02d}:{elapsed_s % 60:02d}"
    drawn = f"{'█' * (10 * done // total):10}"
    return f"{name}{100 * done // total:3d}%|{drawn}| {done}/{total} [{clock}<00:10,  1.00s/it{more}]"


def _read(*blocks: str) -> tuple[Session, SourceState]:
    session = Session(Config())
    return session, feed(session, "run.log", blocks)


def _paces(session: Session, metric: str) -> list[float]:
    series = session.store.series.get((metric, ""))
    return [] if series is None else list(series.values)


def _kinds(session: Session) -> set[str]:
    return {kind for _, kind in session.store.progress.tracks}


def test_the_pace_of_a_bar_is_a_mean_between_its_frames_not_the_rate_that_it_prints() -> None:
    frames = [_bar(at, 100, 3 * at, "Training: ") for at in range(41)]
    session, state = _read("\r".join(frames) + "\n")
    assert set(_paces(session, "step_s")) == {3.0}
    assert state.pseudo == 120.0
    (counter,) = session.store.progress.counters.values()
    assert (counter.amount, counter.total, counter.elapsed_s, counter.remaining_s) == (40, 100, 120, 10)


def test_a_resumed_run_that_jumps_to_its_step_has_no_pace_of_that() -> None:
    frames = [
        _bar(0, 900, 0, "steps: "),
        _bar(600, 900, 0, "steps: "),
        *(_bar(600 + at, 900, 2 * at, "steps: ") for at in range(1, 12)),
    ]
    session, _ = _read("\r".join(frames) + "\n")
    assert set(_paces(session, "step_s")) == {2.0}


def test_bars_within_bars_take_their_time_once() -> None:
    text = ""
    for epoch in range(3):
        text += _bar(epoch, 3, 60 * epoch, "Epochs: ") + "\n"
        text += "".join(_bar(at, 30, 2 * at, f"Epoch {epoch}: ") + "\n" for at in range(31))
    session, state = _read(text)
    assert state.pseudo == 180.0
    assert {"epochs", "step"} <= _kinds(session)


@pytest.mark.parametrize("label", ["Epoch {}", "Epoch {} (best {})", "Epoch {}, loss: 0.{}1", "[rank0]: Epoch {}/60"])
@pytest.mark.parametrize("end", ["\n", "\r"], ids=["lines", "frames"])
@pytest.mark.parametrize("renamed_first", [False, True])
@pytest.mark.parametrize("every", [1, 7], ids=["all", "some"])
def test_one_bar_whose_label_counts_takes_its_time_once(label: str, end: str, renamed_first: bool, every: int) -> None:
    text = ""
    for epoch in range(1, 50, every):
        frames = [(epoch - 1), epoch] if renamed_first else [epoch]
        text += "".join(_bar(done, 60, 40 * done, label.format(epoch, epoch) + ": ") + end for done in frames)
    session, state = _read(text + "\n")
    assert state.pseudo == 40 * epoch
    (counter,) = (one for one in session.store.progress.counters.values() if one.elapsed_s is not None)
    assert (counter.amount, counter.restarts) == (epoch, 0)


@pytest.mark.parametrize("total", [30, None], ids=["alike", "of other lengths"])
@pytest.mark.parametrize("frames", [(0, 15, 30), (30,)], ids=["several frames", "the last frame"])
def test_bars_of_one_epoch_each_take_their_time_one_after_the_other(total: int | None, frames: tuple[int, ...]) -> None:
    text, passed = "", 0
    for epoch in range(1, 6):
        of = total or 30 + epoch
        text += "".join(
            _bar(min(of, at) if at < 30 else of, of, 2 * at + epoch, f"Epoch {epoch}: ") + "\n" for at in frames
        )
        passed += 60 + epoch
    _, state = _read(text)
    assert state.pseudo == passed


def test_bars_of_two_ranks_are_no_new_runs() -> None:
    text = "".join(_bar(at - at % 2, 40, at, "Train: ") + "\n" for at in range(1, 40))
    _, state = _read(text)
    assert state.pseudo == 39.0


def test_frames_behind_the_last_dated_line_have_the_time_of_the_bar() -> None:
    frames = "\r".join(_bar(at, 100, 30 * at, "Training: ") for at in range(20))
    _, state = _read(f"2026-05-11 17:40:00,000 - INFO - begin\n{frames}\n")
    assert state.first is not None
    assert state.last is not None
    assert state.last - state.first == 570.0


def test_frames_of_ten_seconds_are_read_once_and_the_last_one_counts() -> None:
    frames = "\r".join(_bar(at, 100, at // 5, "Training: ") for at in range(101))
    session, state = _read(frames + "\n")
    assert sum(state.patterns.values()) == 3
    (counter,) = session.store.progress.counters.values()
    assert counter.amount == 100


HF_LINE = "{'loss': 1.5, 'grad_norm': 0.75, 'learning_rate': 1e-05, 'epoch': 0.1}"


def test_the_step_of_a_hugging_face_trainer_is_that_of_its_bar() -> None:
    text = ""
    for at in range(1, 41):
        text += "\r" + _bar(at, 100, 2 * at)
        if at % 10 == 0:
            text += BLANK + HF_LINE + "\n" + "\r" + _bar(at, 100, 2 * at)
    text += "".join("\r" + _bar(at, 7, at) for at in range(8))
    session, _ = _read(text + "\n")
    steps = list(session.store.steps["trainer"].values)
    result = [10, 14, 19, 20, 24, 29, 30, 34, 39, 40]  # beside its losses, and by the last frame of every ten seconds
    assert steps == result, "the bar of an evaluation tells of no steps"
    assert set(_paces(session, "step_s")) == {2.0}


def test_a_bar_that_ended_before_is_not_that_of_the_trainer() -> None:
    session, _ = _read(_bar(7, 7, 3) + "\n" + HF_LINE + "\n")
    assert not session.store.steps


def test_a_record_that_is_glued_to_a_bar_is_read_and_so_is_the_bar() -> None:
    session, state = _read(_bar(10, 100, 20) + HF_LINE + "\n")
    assert sum(state.patterns.values()) == 2
    assert list(session.store.steps["trainer"].values) == [10]


def test_a_line_printed_once_in_twenty_steps_stands_for_all_of_them() -> None:
    line = "Epoch: [0]  [{:4d}/1000]  eta: 0:01:02  loss: 3.5 (3.6)  time: 0.5000  data: 0.1000  max mem: 800\n"
    session, state = _read("".join(line.format(at) for at in range(0, 200, 20)))
    assert state.pseudo == pytest.approx(0.5 * 181)
    assert sum(span.duration_s or 0.0 for span in session.store.spans["data-wait"]) == pytest.approx(0.1 * 181)
    assert [span.key for span in session.store.spans["train-step"]][:2] == ["0", "1-20"]


DEEPSPEED = (
    "[2026-05-11 17:40:{0:02d},000] [INFO] [logging.py:107:log_dist] [Rank 0] step={0}, skipped=0, lr=[1e-05], mom=[]\n"
    "[2026-05-11 17:40:{0:02d},001] [INFO] [timer.py:264:stop] epoch=0/micro_step={0}/global_step={0}, "
    "RunningAvgSamplesPerSec=6.6, CurrSamplesPerSec=6.5, MemAllocated=12.99GB, MaxMemAllocated=27.45GB\n"
    "[Step {1}/100] Loss: 5.0 | Tokens/s: 1376.92\n"
)


@pytest.mark.parametrize("behind", [0, 1])
def test_a_step_that_several_lines_tell_of_is_one(behind: int) -> None:
    session, _ = _read("".join(DEEPSPEED.format(at, at - behind) for at in range(1, 21)))
    assert list(session.store.steps["trainer"].values) == [*range(1, 21)]


def test_another_trainer_takes_over_where_the_first_one_has_ended() -> None:
    first = "".join(DEEPSPEED.format(at, at) for at in range(1, 11))
    session, _ = _read(first + "".join(f"iter {at}: loss 2.5, time 812.50ms, mfu 31.25%\n" for at in range(1, 9)))
    assert list(session.store.steps["trainer"].values)[-5:] == [4, 5, 6, 7, 8]


def test_a_loss_that_is_nan_is_counted_apart_and_poisons_no_mean() -> None:
    line = "2026-05-11 17:40:{0:02d},000 step {0}/100 | loss: {1} | grad_norm: {2}\n"
    result = [(1.0, 0.5), (2.0, "inf"), ("nan", "nan"), ("nan", "nan")]
    session, _ = _read("".join(line.format(at, loss, norm) for at, (loss, norm) in enumerate(result, 1)))
    snapshot = session.snapshot()
    made = json.loads(json.dumps(document(snapshot), allow_nan=False))["metrics"]
    assert (made["loss"]["count"], made["loss"]["mean"], made["loss"]["max"]) == (2, 1.5, 2.0)
    assert (made["loss"]["not_finite"], made["loss"]["last"]) == (2, None)
    assert (made["grad_norm"]["count"], made["grad_norm"]["not_finite"]) == (1, 3)
    assert "loss is nan or infinite in 2 lines, first in line 3" in snapshot.run.sources[0].notes
    assert len(session.store.marks["loss_not_finite", ""]) == 2


def test_a_loss_of_nan_in_a_dictionary_is_meant() -> None:
    session, state = _read("{'loss': nan, 'grad_norm': inf, 'learning_rate': 1e-05, 'epoch': 0.1}\n")
    assert state.skipped == 0
    assert {name for name, _ in session.store.marks} == {"loss_not_finite", "grad_norm_not_finite"}
