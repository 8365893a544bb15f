"""What the ends of logs show: bars that are resumed or lost, last indices, chained and torn exceptions, escapes."""

from __future__ import annotations

import pytest

from perfmon.core.config import Config
from perfmon.core.model import Block, Progress
from perfmon.diagnosis.result import Diagnosis
from perfmon.pipeline.session import Session
from perfmon.sources.formats.step_lines import read_step


def _result_of(*lines: str) -> Diagnosis:
    session = Session(Config())
    session.feed(session.add_source("run.log"), Block("\n".join([*lines, ""]).encode(), 0, 1))
    return session.snapshot()


def _bar(n: int, of: int, elapsed_s: int, name: str = "", behind: str = "") -> str:
    clock = f"{elapsed_s // 60:02d}:{elapsed_s % 60:02d}"
    return f"{name}{100 * n // of:3d}%|#   | {n}/{of} [{clock}<10:00,  2.00s/it{behind}]"


def _verdict(snapshot: Diagnosis) -> str:
    return snapshot.verdict.sentence if snapshot.verdict is not None else ""


def test_a_bar_that_another_process_resumes_counts_on() -> None:
    first = [_bar(n, 2000, 2 * n) for n in range(1, 731, 3)]
    goal = _result_of(*first, *[_bar(n, 2000, 2 * (n - 700)) for n in range(701, 1401, 3)]).run.goal
    assert goal is not None
    assert (goal.done, goal.total) == (1400, 2000)


def test_a_bar_that_begins_again_does_not() -> None:
    epochs = [_bar(n, 2000, 2 * n) for _ in range(2) for n in range(1, 731, 3)]
    assert _result_of(*epochs).run.goal is None


@pytest.mark.parametrize(("last", "state"), [(99, Progress.FINISHED), (98, Progress.RUNNING)])
def test_the_last_index_of_steps_that_count_from_0_ends_a_run(last: int, state: Progress) -> None:
    assert _result_of(*[f"iteration {n}/100 loss: {2 - n / 100:.3f}" for n in range(last + 1)]).run.state is state


@pytest.mark.parametrize(("last", "state"), [(50, Progress.FINISHED), (49, Progress.RUNNING)])
def test_the_full_bar_of_the_last_of_several_epochs_ends_a_run(last: int, state: Progress) -> None:
    bars = [_bar(n, 50, 10 * n, f"Training Epoch: {epoch}/3, step {n}: ") for epoch in (1, 2) for n in range(1, 51)]
    bars += [_bar(n, 50, 10 * n, f"Training Epoch: 3/3, step {n}: ") for n in range(1, last + 1)]
    assert _result_of(*bars).run.state is state


def test_steps_of_one_epoch_are_not_those_of_the_run() -> None:
    goal = _result_of(*[f"Epoch [31/60][{n}/900] lr: 0.002, loss: 1.{n}" for n in range(10, 900, 10)]).run.goal
    assert goal is not None
    assert (goal.done, goal.total, goal.unit) == (31, 60, "epochs")


def test_a_worker_that_died_is_named_and_not_that_nothing_came_from_it() -> None:
    snapshot = _result_of(
        "Traceback (most recent call last):",
        '  File "/opt/lib/python3.8/queue.py", line 178, in get',
        "    raise Empty",
        "_queue.Empty",
        "",
        "The above exception was the direct cause of the following exception:",
        "",
        "Traceback (most recent call last):",
        '  File "train.py", line 163, in <module>',
        "    main()",
        "RuntimeError: DataLoader worker (pid(s) 58594) exited unexpectedly",
    )
    assert "DataLoader worker" in _verdict(snapshot)
    assert "58594" in _verdict(snapshot)


def test_the_exception_before_a_kill_is_told() -> None:
    snapshot = _result_of(
        "[2026-02-09 11:06:46 TP0] Scheduler hit an exception: Traceback (most recent call last):",
        '  File "/app/engine.py", line 310, in all_reduce',
        "    torch.distributed.all_reduce(input_)",
        "RuntimeError: NCCL error: remote process exited or there was a network error",
        "[2026-02-09 11:06:46] Received sigquit from a child proces. It usually means the child failed.",
        "Killed",
    )
    assert "NCCL error" in _verdict(snapshot)


@pytest.mark.parametrize("count", [2, 3, 8])
def test_an_exception_of_several_processes_is_put_together(count: int) -> None:
    snapshot = _result_of(
        *['  File "train.py", line 5, in main'] * count,
        f"{'IndexError' * count}{': ' * count}{'list index out of range' * count}",
    )
    assert "IndexError: list index out of range" in _verdict(snapshot)
    assert "IndexErrorIndexError" not in _verdict(snapshot)


def test_what_syslog_escapes_is_read() -> None:
    lines = [
        f"2026-03-04T16:{n // 60:02d}:{n % 60:02d}.986-05:00 | [{n}]#011train's binary_logloss: 0.{900 - n}"
        for n in range(1, 40)
    ]
    goal = _result_of(*lines).run.goal
    assert goal is not None
    assert (goal.done, goal.unit) == (39, "rounds")


def test_a_mean_of_nothing_is_no_divergence() -> None:
    bars = [
        _bar(n, 900, 2 * n, "Epoch 0: ", f", loss=nan, v_num=, reduced_train_loss={9 - n / 100:.2f}")
        for n in range(1, 200)
    ]
    snapshot = _result_of(*bars)
    assert snapshot.findings == ()


def test_lines_of_one_shape_have_their_own_figures() -> None:
    assert read_step("step 12/50 | loss: 1.25 | 2.0 it/s | mfu: 0.5") == {
        "step": "12",
        "total": "50",
        "loss": "1.25",
        "step_time": "0.500000000",
        "mfu": 50.0,
    }
    assert read_step("step 13/50 | loss: 9.75 | 4.0 it/s | mfu: 2.5")["mfu"] == 2.5
    assert read_step("step 13/50 | loss: 9.75 | 4.0 it/s | mfu: 2.5")["loss"] == "9.75"
    assert read_step("step 71/50 | loss: 9.75 | 4.0 it/s | mfu: 2.5") == {}
    assert "step_time" not in read_step("step 13/50 | loss: 9.75 | 0.0 it/s | mfu: 2.5")


def _folds(count: int, *, over: bool) -> list[str]:
    lines = []
    for fold in range(count):
        lines += [
            f"2026-05-05 10:{fold:02}:{step:02} INFO step {step}/20 loss {2 - step / 20:.2f}" for step in range(1, 21)
        ]
        lines.append(f"2026-05-05 10:{fold:02}:21 INFO Training complete")
    return lines if over else lines[:-7]


@pytest.mark.parametrize(("over", "state"), [(True, Progress.FINISHED), (False, Progress.RUNNING)])
def test_the_end_of_the_last_of_several_folds_is_that_of_the_run(over: bool, state: Progress) -> None:
    assert _result_of(*_folds(12, over=over)).run.state is state


def test_words_after_each_epoch_end_no_run_while_epochs_are_left() -> None:
    lines = [
        line.replace("INFO step", f"INFO epoch {at // 21 + 1}/30 step") for at, line in enumerate(_folds(12, over=True))
    ]
    assert _result_of(*lines).run.state is Progress.RUNNING


def test_steps_that_state_their_time_are_the_clock_of_a_log_without_one() -> None:
    lines = [f"iter {at}: loss {4 - at / 1000:.4f}, time 1200.00ms, mfu 41.20%" for at in range(0, 1010, 10)]
    run = _result_of(*lines).run
    assert run.end - run.start == pytest.approx(1001 * 1.2, rel=0.02)


_STARTED = (
    "Traceback (most recent call last):",
    '  File "/srv/app/main.py", line 9, in <module>',
    "    from nets import build",
    '  File "/srv/app/nets.py", line 2, in <module>',
    "    import einops",
    "ModuleNotFoundError: No module named 'einops'",
)
_STOPPED = (
    "Traceback (most recent call last):",
    '  File "/srv/app/main.py", line 80, in <module>',
    "    fit(model)",
    '  File "/srv/app/loop.py", line 31, in fit',
    "    loss.backward()",
    "KeyboardInterrupt",
)


def test_a_start_that_lacks_a_module_is_another_process_than_the_one_that_was_stopped() -> None:
    rounds = [f"Round {n} done, server accuracy {n}" for n in range(12)]
    assert "einops" in _verdict(_result_of(*_STOPPED, *rounds, *_STARTED, *_STARTED))


def test_what_a_process_imports_late_ends_none_before_it() -> None:
    late = [line.replace("main.py", "other.py") for line in _STARTED]
    assert "KeyboardInterrupt" in _verdict(_result_of(*_STOPPED, *late))


def test_a_configuration_that_is_refused_without_a_traceback_ends_a_run() -> None:
    told = [
        "Error executing job with overrides: ['trainer.batch_size=96']",
        "Error in call to target 'acme.rl.Trainer':",
        "ConfigError('batch_size must be a multiple of 64')",
        "full_key: trainer",
    ]
    snapshot = _result_of("[2026-03-02 10:00:00][root][INFO] - Training on cpu", *told)
    assert snapshot.run.state is Progress.FAILED
    assert "ConfigError: batch_size must be a multiple of 64" in _verdict(snapshot)


def test_the_traceback_behind_such_words_is_the_cause() -> None:
    snapshot = _result_of("Error executing job with overrides: ['lr=0.1']", *_STOPPED[:5], "KeyError: 'lr'")
    assert "KeyError: 'lr' (loop.py:31 in fit)" in _verdict(snapshot)


def test_an_operation_whose_end_is_not_read_is_not_open_when_it_begins_again() -> None:
    log = []
    for n in range(8):
        log += [
            f"[2026-03-02 10:{6 * n:02d}:00] timer.py:24 - Timer update_weights start",
            f"[2026-03-02 10:{6 * n + 1:02d}:00] model.py:455 - step {n}: loss 0.{n}",
        ]
    snapshot = _result_of(*log)
    assert [finding.signature for finding in snapshot.findings] == []


@pytest.mark.parametrize(
    ("line", "name", "figure"),
    [
        ("step 12/500 | loss: 3.2 | step time (ms): 812", "step_time", "812ms"),
        ("step 12/500 | loss: 3.2 | step_time_ms: 812", "step_time", "812ms"),
        ("step 12/500 | loss: 3.2 | step time (s): 2", "step_time", "2s"),
        ("iteration: 12 / 500 | elapsed_time_per_iteration_ms: 1.5K | lm_loss: 2.5", "step_time", "1500.0ms"),
        ("iteration: 12 / 500 | tokens_per_sec: 22.5K | lm_loss: 2.5", "tps", "22500.0"),
        ("step 12 loss 2.5 tok/s 1.25M", "tps", "1250000.0"),
        ("epoch: 3,  loss is: 0.25, acc is: 0.9", "loss", "0.25"),
        ('stats: {"type": "train", "iter": "20/900", "loss": 3.5, "time_diff": 0.75}', "step_time", "0.75s"),
        ("[egs/train.py:49 - train - INFO ] Iter: 3/250   Epoch: 0.01/4.0   lr: 0.0005", "total", "250"),
    ],
)
def test_a_figure_has_the_unit_of_its_name_and_its_thousands(line: str, name: str, figure: str) -> None:
    assert read_step(line)[name] == figure


def test_a_figure_is_not_cut_off_where_its_unit_is_unknown() -> None:
    assert "tps" not in read_step("step 12 loss 2.5 tokens_per_sec: 22.5Q")


_RAISED = (
    "Traceback (most recent call last):",
    '  File "train.py", line 90, in <module>',
    "    app.run()",
    '  File "/opt/lib/python3/dist-packages/slim/learning.py", line 700, in train',
    "    supervisor.stop(threads)",
    "framework.errors_impl.DataLossError: corrupted record at 12",
)


def test_an_exception_that_was_reported_before_the_words_of_an_end_is_no_noise_of_a_shutdown() -> None:
    steps = [f"INFO:tensorflow:global step {n}: loss = {4 / n:.4f} (0.502 sec/step)" for n in range(1, 40)]
    end = "Finished training! Saving model to disk."
    told = "INFO:tensorflow:Error reported to Coordinator: <class 'framework.errors_impl.DataLossError'>, corrupted"
    assert "DataLossError" in _verdict(_result_of(*steps, told, end, *_RAISED))
    assert _result_of(*steps, end, *_RAISED).run.state is Progress.FINISHED


def test_a_count_of_iterations_may_have_thousands() -> None:
    snapshot = _result_of(*[f"<epoch:  4, iter:  {n:,}, lr:1.000e-04, psnr:{n}>" for n in range(900, 2400, 100)])
    assert snapshot.run.goal is not None
    assert snapshot.run.goal.done == 2300


def test_threads_that_fail_behind_the_last_words_are_no_death() -> None:
    thread = ["Exception in thread Thread-3:", *_RAISED]
    assert _result_of(*[_bar(n, 90, 2 * n) for n in range(1, 91)], "End training....", *thread).verdict is None


def test_a_wait_that_no_clock_of_the_log_shows_is_not_told_shorter_than_it_was() -> None:
    steps = [f"2026-03-02 09:00:{n:02d} step {n} loss {4 / n:.4f}" for n in range(1, 30)]
    line = (
        "[rank1]:[E ProcessGroupNCCL.cpp:563] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL("
        "SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600042 milliseconds before "
        "timing out."
    )
    behind = "2026-03-02 09:{:02d}:33 INFO still here"
    assert "no progress" not in _verdict(_result_of(*steps, behind.format(0), line))
    assert "no progress for 10m" in _verdict(_result_of(*steps, behind.format(10), line))


def _saved(*behind: str) -> Diagnosis:
    steps = [f"2026-05-05 10:00:{n:02d} INFO step={n} loss=1.{n:02d} step_time=1.0" for n in range(40, 47)]
    return _result_of(*steps, *behind)


def test_the_last_checkpoint_is_of_the_step_that_its_line_names() -> None:
    done = "2026-05-05 10:00:47 INFO [ckpt] write.done step=43 write_ms=900.0"
    run = _saved(done).run
    assert (run.saved_step, run.unsaved_steps) == (43.0, 3.0)


def test_a_checkpoint_behind_an_evaluation_is_of_the_step_that_this_names() -> None:
    made = [f"iter {n}: loss 2.5, time 1000.00ms, mfu 41.00%" for n in range(200, 300, 10)]
    saved = ["step 300: train loss 2.5, val loss 2.6", "saving checkpoint to out"]
    behind = [f"iter {n}: loss 2.5, time 1000.00ms, mfu 41.00%" for n in range(300, 350, 10)]
    run = _result_of(*made, *saved, *behind).run
    assert (run.saved_step, run.unsaved_steps) == (300.0, 40.0)


def test_what_was_being_saved_when_the_disk_was_full_is_no_checkpoint() -> None:
    saving = "2026-05-05 10:00:47 INFO Saving model checkpoint to /out/checkpoint-46"
    full = "OSError: [Errno 28] No space left on device: '/out/checkpoint-46/model.safetensors'"
    assert _saved(saving).run.saved_step == 46.0
    assert _saved(saving, full).run.saved_step is None


@pytest.mark.parametrize(("end", "shown"), [("", True), ("09:01:40 SUCCESS RL trainer finished!", False)])
def test_a_log_without_an_end_next_to_others_that_have_one_is_named(end: str, shown: bool) -> None:
    session = Session(Config())
    trainer = [
        f"09:0{n // 60}:{n % 60:02d} SUCCESS Step {n // 10} | 10.0s | Loss 0.0012 | Entropy 0.33"
        for n in range(0, 90, 10)
    ]
    orchestrator = [
        f"09:0{n // 60}:{n % 60:02d} SUCCESS Step {n // 10} | 10.0s | Reward 0.5 | Truncation 1.0%"
        for n in range(0, 90, 10)
    ]
    logs = {
        "trainer.log": [*trainer, end],
        "orchestrator.log": [*orchestrator, "09:01:35 SUCCESS Orchestrator finished."],
    }
    for name, lines in logs.items():
        session.feed(session.add_source(name), Block("\n".join([*lines, ""]).encode(), 0, 1))
    found = session.snapshot()
    assert found.run.state is Progress.FINISHED
    assert found.run.without_end == (("trainer.log",) if shown else ())
    assert ("trainer.log logs no end" in found.summary) is shown
