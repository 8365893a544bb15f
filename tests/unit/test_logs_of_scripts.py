"""Logs of scripts that nobody wrote a format for: pauses, cut beginnings, bars within bars, ends, what is survived."""

from __future__ import annotations

import pytest

from perfmon.core.config import Config
from perfmon.core.intervals import PRODUCTIVE
from perfmon.core.model import Block, Progress
from perfmon.diagnosis.result import Assessment, Diagnosis
from perfmon.pipeline.session import Session
from perfmon.sources.formats.step_lines import read_step


def _result_of(*lines: str) -> Diagnosis:
    session = Session(Config())
    session.feed(session.add_source("run.log"), Block("\n".join([*lines, ""]).encode(), 0, 1))
    return session.snapshot()


def _found(snapshot: Diagnosis) -> list[str]:
    return [finding.signature for finding in snapshot.findings]


def _share(snapshot: Diagnosis, cause: str) -> float:
    return next((entry.share for entry in snapshot.ledger if entry.cause == cause), 0.0)


def _steps(first: int, count: int, begin_s: int) -> list[str]:
    return [
        f"2026-03-02 09:{(begin_s + 2 * at) // 60:02d}:{(begin_s + 2 * at) % 60:02d},100 - train - INFO - "
        f"Step {first + at} loss: {9.5 - 0.1 * at:.3f} entropy: 0.6"
        for at in range(count)
    ]


def test_what_an_evaluation_takes_between_two_steps_is_no_stall() -> None:
    snapshot = _result_of(
        *_steps(1, 8, 0),
        "2026-03-02 09:00:55,200 - train - INFO - Step 8 eval_acc: 0.278",
        *_steps(9, 8, 57),
        "2026-03-02 09:01:54,200 - train - INFO - Step 16 eval_acc: 0.312",
        *_steps(17, 4, 116),
    )
    assert not _found(snapshot)
    assert snapshot.run.state is Progress.RUNNING


def test_the_same_silence_without_an_evaluation_is_one() -> None:
    snapshot = _result_of(*_steps(1, 8, 0), *_steps(9, 8, 97))
    assert "stall" in _found(snapshot)


def test_a_log_that_begins_in_the_middle_of_a_counter_did_not_stand_still_before() -> None:
    snapshot = _result_of(
        *(
            f"step:{7140 + at}/20000 train_loss:6.4e-02 train_time:{31_800_000 + 4360 * at}ms step_avg:4453.39ms"
            for at in range(12)
        )
    )
    assert not _found(snapshot)
    assert _share(snapshot, PRODUCTIVE) > 0.95


def test_a_bar_that_is_met_late_had_worked_before() -> None:
    frames = "\r".join(
        f"Epoch 12/200:  4{at}%|████▎     | {77 + at}/180 [01:{18 + at}<01:43,  1.01s/it]" for at in range(9)
    )
    snapshot = _result_of(frames)
    assert _share(snapshot, PRODUCTIVE) > 0.9


def test_bars_without_a_name_are_told_apart_by_their_totals() -> None:
    snapshot = _result_of(
        *(f"\r100%|██████████| 280/280 [00:29<00:00,  9.45it/s]\r{' ' * 40}\r 50%|█████     | {n}/1677 [{m}:00<24:00,  1.5s/it]"  # noqa: E501
          for n, m in ((559, 16), (1118, 32), (1677, 48)))
    )  # fmt: skip
    assert snapshot.run.wall_s == pytest.approx(48 * 60, abs=60)
    assert snapshot.run.goal is not None
    assert (snapshot.run.goal.done, snapshot.run.goal.total) == (1677, 1677)


def test_a_log_without_a_clock_goes_on_behind_an_exception() -> None:
    caught = (
        "Traceback (most recent call last):",
        '  File "/srv/own/train.py", line 41, in upload',
        "    push(path)",
        "ConnectionError: no route to the store",
    )
    before = [f"Epoch {n} loss {0.9 - 0.1 * n:.2f} acc {50 + n}" for n in range(1, 4)]
    after = [f"Epoch {n} loss {0.9 - 0.1 * n:.2f} acc {50 + n}" for n in range(4, 7)]
    assert _result_of(*before, *caught, *after).run.state is Progress.RUNNING
    assert _result_of(*before, *caught).run.state is Progress.FAILED


def test_the_step_of_the_first_nan_is_told_without_a_clock() -> None:
    lines = [f"iter {n}: loss {3.5 - 0.01 * n / 5:.4f}, time 1446.10ms, mfu 0.01%" for n in range(380, 425, 5)]
    lines += [f"iter {n}: loss nan, time 1440.31ms, mfu 0.01%" for n in range(425, 455, 5)]
    (finding,) = _result_of(*lines).findings
    assert finding.signature == "loss-diverged"
    assert "since step 425" in finding.sentence


@pytest.mark.parametrize(
    ("last", "state"),
    [
        ("Epoch [20/20], Train Loss: 0.0034, Train Acc: 0.9991, Val Loss: 0.0518", Progress.FINISHED),
        ("Epoch [19/20], Train Loss: 0.0034, Train Acc: 0.9991, Val Loss: 0.0518", Progress.RUNNING),
    ],
)
def test_the_results_of_the_last_epoch_end_a_run(last: str, state: Progress) -> None:
    epochs = [f"Epoch [{n}/20], Train Loss: 0.{90 - n}, Train Acc: 0.9, Val Loss: 0.5" for n in range(15, 19)]
    assert _result_of(*epochs, last).run.state is state


def test_what_a_trainer_saves_when_it_is_done_is_no_more_work() -> None:
    snapshot = _result_of(
        "{'loss': 0.5, 'grad_norm': 0.4, 'learning_rate': 1e-05, 'epoch': 2.9}",
        "{'train_runtime': 821.4, 'train_samples_per_second': 3.9, 'train_steps_per_second': 0.5, 'train_loss': 1.28, 'epoch': 3.0}",  # noqa: E501
        "100%|██████████| 411/411 [13:41<00:00,  2.00s/it]",
        "[INFO|trainer.py:4074] 2026-03-02 09:39:01,146 >> Saving model checkpoint to out/sft",
        "[INFO|configuration_utils.py:750] 2026-03-02 09:39:01,182 >> Configuration saved in out/sft/config.json",
    )
    assert snapshot.run.state is Progress.FINISHED


def test_a_step_that_was_under_way_does_not_outlive_a_watchdog() -> None:
    op = "WorkNCCL(SeqNum=2058, OpType=ALLREDUCE, NumelIn=1259621, NumelOut=1259621, Timeout(ms)=600000)"
    head = "[rank0]:[E302 09:05:38.162555850 ProcessGroupNCCL.cpp:632] [Rank 0]"
    snapshot = _result_of(
        "\rEpoch 9/10: 300it [07:24,  1.48s/it, loss=2.29]",
        f"\rEpoch 10/10: 240it [05:55,  1.47s/it, loss=5.46]{head} Watchdog caught collective operation timeout: {op} ran for 600000 milliseconds before timing out.",  # noqa: E501
        f"\rEpoch 10/10: 241it [15:55, 181.19s/it, loss=5.09]{head} To avoid data inconsistency, we are taking the entire process down.",  # noqa: E501
        "E0302 09:05:39.816000 562 site-packages/torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: -6) local_rank: 0 (pid: 563) of binary: /opt/conda/bin/python3.11",  # noqa: E501
    )
    assert "collective-timeout" in _found(snapshot)
    assert "ALLREDUCE" in snapshot.findings[0].sentence


def test_what_rewritten_code_raised_is_named_by_its_own_line() -> None:
    snapshot = _result_of(
        "Epoch 1/10",
        "Traceback (most recent call last):",
        '  File "train.py", line 88, in <module>',
        "    model.fit(batches, epochs=10)",
        '  File "/opt/env/lib/python3.9/site-packages/tensorflow/python/framework/func_graph.py", line 977, in wrapper',
        "    raise e.ag_error_metadata.to_exception(e)",
        "ValueError: in user code:",
        "",
        "    /opt/env/lib/python3.9/site-packages/tensorflow/python/keras/engine/training.py:805 train_function  *",
        "        return step_function(self, iterator)",
        "",
        "    ValueError: Input 0 of layer conv1d is incompatible with the layer: expected min_ndim=3, found ndim=2.",
    )
    assert snapshot.run.state is Progress.FAILED
    assert "Input 0 of layer conv1d" in snapshot.findings[0].sentence


def test_a_step_that_lists_figures_of_its_own_names_is_one() -> None:
    lines = [f"iter {n}00:, margin_hard=0.21, margin_full=0.34, lr=0.000100" for n in range(37, 41)]
    snapshot = _result_of(*lines, "Training COMPLETE")
    assert snapshot.run.state is Progress.FINISHED
    assert snapshot.run.goal is not None
    assert snapshot.run.goal.done == 4000


def test_names_and_figures_in_a_row_are_read_in_their_order() -> None:
    figures = read_step("step 5 loss 2.5 lr 1e-4 grad_norm 1.2 tok/s 1200")
    assert (figures["grad_norm"], figures["tps"]) == ("1.2", "1200")
    assert read_step("step 5 loss 2.5 lr 1e-4 1200 tok/s")["tps"] == "1200.0"


def test_a_part_of_the_loss_without_a_sign_behind_its_name_is_read() -> None:
    assert read_step("step 3 | loss 2.5 | loss_scale 8.000") == {"step": "3", "loss": "2.5", "quality": "8.000"}


def test_a_cost_in_time_is_no_loss() -> None:
    assert "loss" not in read_step("Epoch[2] Time cost=6.5")
    assert read_step("step 5, cost=0.5")["loss"] == "0.5"


def test_the_wait_of_a_batch_for_its_data_is_read_by_either_name() -> None:
    for name in ("reader_cost", "data_cost", "avg_data_cost"):
        figures = read_step(f"Epoch: [0] [20/200] loss: 10.5 batch_cost: 6.5 {name}: 6.0 ips: 4.75 images/s")
        assert (figures["step_time"], figures["data_time"]) == ("6.5s", "6.0s")


def test_ep_counts_episodes_where_an_agent_learns_and_epochs_elsewhere() -> None:
    assert read_step("[ 201] ep=2010 r= 22.2 ploss=-0.0165 vloss= 19.1 (13s)")["episode"] == "2010"
    assert read_step("ep 3/50 train loss 0.5")["epoch"] == "3"


def test_a_rate_that_is_rounded_to_nothing_is_no_pace() -> None:
    assert "step_time" not in read_step("(step=251) Loss: 0.55, Train Steps/Sec: 0.03, ")
    assert "step_time" in read_step("(step=251) Loss: 0.55, Train Steps/Sec: 0.35, ")


def test_a_record_of_named_figures_behind_its_number_is_a_step() -> None:
    assert read_step("Iter 1019: SR 54.5%, Q 228.5, Pi -32.5, CE 5.5")["step"] == "1019"
    assert read_step("Iter 3: take 3 apples, 2 pears and 1 plum") == {}


def test_games_of_an_evaluation_go_on_behind_the_last_epoch() -> None:
    epochs = [f"    epoch {at}/3  loss={2 - at / 4}  val=1.9" for at in (1, 2, 3)]
    games = [f"    eval game {at}/30  (idx {at})  moves=17" for at in range(1, 14)]
    assert _result_of(*epochs).run.state is Progress.FINISHED
    snapshot = _result_of(*epochs, *games)
    assert snapshot.run.state is Progress.RUNNING
    assert snapshot.run.goal is not None
    assert (snapshot.run.goal.done, snapshot.run.goal.total) == (13.0, 30.0)


def test_the_clock_of_bars_that_count_nothing_is_not_added_up() -> None:
    bars = (
        f"Epoch {at}: : 0it [{5 * at:02d}:00, ?it/s, loss=1.7]\r"
        f"Epoch {at}: : 0it [{5 * at + 4:02d}:50, ?it/s, loss=1.7]"
        for at in range(8)
    )
    snapshot = _result_of(*bars)
    assert snapshot.run.wall_s == pytest.approx(39 * 60 + 50)


def test_the_last_words_of_a_launcher_and_of_a_script() -> None:
    steps = _steps(1, 8, 0)
    assert _result_of(*steps, "=== exit 0 at 2026-03-02T09:01:00+01:00 ===").run.state is Progress.FINISHED
    assert _result_of(*steps, "I FINISHED optimization in 0:00:16.2").run.state is Progress.FINISHED
    failed = _result_of(*steps, "❌ Training failed — no model was written.", "   1. look at the data")
    assert failed.run.state is Progress.FAILED
    assert "no model was written" in failed.findings[0].sentence


def test_a_loss_that_is_nan_in_the_last_line_is_not_healthy() -> None:
    steps = _steps(1, 8, 0)
    assert _result_of(*steps).assessment is Assessment.HEALTHY
    snapshot = _result_of(*steps, "2026-03-02 09:00:16,100 - train - INFO - Step 9 loss: nan entropy: 0.6")
    assert snapshot.assessment is Assessment.WATCH
    assert "loss NaN or infinite in the last line" in snapshot.summary


def test_marks_of_a_traceback_hide_no_line_of_another_rank() -> None:
    snapshot = _result_of(
        "Traceback (most recent call last):",
        '  File "train.py", line 3, in main',
        "    scores = metric.compute()",
        "             ^^^^^^^^^^^^[rank1]:[E1003 18:37:01.832146912 ProcessGroupNCCL.cpp:607] [Rank 1] Watchdog caught "
        "collective operation timeout: WorkNCCL(SeqNum=64, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, "
        "Timeout(ms)=1800000) ran for 1800017 milliseconds before timing out.",
    )
    assert "; sequence number 64" in snapshot.findings[0].sentence


def test_a_time_in_a_sentence_is_no_clock() -> None:
    snapshot = _result_of(
        *_steps(1, 3, 0),
        "*** SIGTERM received at time=1772435106 on cpu 24 ***",
        "2026-03-02 09:00:06,300 - train - INFO - stopped",
    )
    assert snapshot.run.wall_s < 60


def _waiting(minutes: int, *first: str) -> Diagnosis:
    text = "INFO shard-manager: text_generation_launcher: Waiting for shard to be ready... rank=0"
    times = (f"2026-03-02T09:{at // 6:02d}:{at % 6}2.610817Z  {text}" for at in range(6 * minutes))
    return _result_of(*first, *times)


def test_a_server_that_only_waits_for_its_shards_stands_still() -> None:
    assert "stall" in _found(_waiting(20))
    assert not _found(_waiting(8))
    begun = "2026-03-02T09:00:01.610817Z  INFO shard-manager: text_generation_launcher: Starting shard rank=0"
    assert not _found(_waiting(20, begun))  # large weights take long
    assert "stall" in _found(_waiting(40, begun))


def _pending(minutes: int) -> Diagnosis:
    return _result_of(
        *(
            line
            for at in range(12 * minutes)
            for line in (
                "== Status ==",
                f"Current time: 2026-03-02 09:{at // 12:02d}:{5 * (at % 12):02d} (running for 00:00:05.21)",
                "Memory usage on this node: 6.2/7.9 GiB",
                "Resources requested: 0/4 CPUs, 0/0 GPUs, 0.0/1.35 GiB heap, 0.0/0.67 GiB objects",
                "Number of trials: 1/1 (1 PENDING)",
            )
        )
    )


def test_trials_that_only_wait_for_resources_are_a_start() -> None:
    snapshot = _pending(5)
    assert (snapshot.run.state, snapshot.assessment) == (Progress.STARTING, Assessment.LEARNING)
    assert not snapshot.findings
    assert _pending(15).run.state is Progress.STALLED


def _bars(until: int, *at_step: tuple[int, str]) -> list[str]:
    """The frames of a bar of 1,200 steps of six seconds without any clock, with other lines behind some of them."""
    lines = ["***** Running training *****"]
    for step in range(1, until + 1):
        done, left = divmod(6 * step, 60), divmod(6 * (1200 - step), 60)
        clock = f"{done[0]:02d}:{done[1]:02d}<{left[0]:02d}:{left[1]:02d}"
        lines.append(f" {step * 100 // 1200:2d}%|#         | {step}/1200 [{clock},  6.00s/it]")
        lines += [line for at, line in at_step if at == step]
    return lines


def test_a_save_between_the_frames_of_a_bar_has_the_time_of_the_bar() -> None:
    snapshot = _result_of(*_bars(60, (40, "Saving model checkpoint to outputs/sft/checkpoint-40")))
    assert snapshot.run.saved == 240.0
    assert snapshot.run.end == 360.0
    assert not any("checkpoint" in missing for missing in snapshot.unseen)
    never = _result_of(*_bars(60))
    assert never.run.saved is None
    assert any("checkpoint" in missing for missing in never.unseen)


@pytest.mark.parametrize(
    "line",
    [
        "Saving checkpoint to /ckpt/run every 500 steps",
        "Resuming from the checkpoint saved at step 500",
        "Will not be saving checkpoint to /ckpt/run",
        "ERROR saving checkpoint to /ckpt/run failed: no quota",
    ],
)
def test_a_line_that_only_mentions_a_save_is_none(line: str) -> None:
    steps = _steps(1, 8, 0)
    assert _result_of(*steps[:4], f"2026-03-02 09:00:07,100 - train - INFO - {line}", *steps[4:]).run.saved is None


def test_a_collective_that_timed_out_names_first_who_is_missing() -> None:
    line = (
        "[rank{0}]:[E302 09:10:24.118204411 ProcessGroupNCCL.cpp:616] [Rank {0}] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=812, OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) ran for "
        "600021 milliseconds before timing out."
    )
    snapshot = _result_of(*_steps(1, 8, 0), *(line.format(rank) for rank in (0, 1, 3)))
    assert "rank 2 did not report; ALLREDUCE timed out; reported by ranks 0-1, 3;" in snapshot.findings[0].sentence
