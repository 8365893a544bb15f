"""A pipeline that starves: who is to blame, and what looks like starvation and is none."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import pytest
from streams import connection, epoch, gpu, interleaved, peaknet, queue, stamp, text

from perfmon.cli import main
from perfmon.clocks import align
from perfmon.comparison.model import run_of
from perfmon.core import FIGURES, Block, Config
from perfmon.diagnosis import Diagnosis, Finding
from perfmon.pipeline import Session
from perfmon.pipeline.offline import diagnose_texts
from perfmon.viewmodel import Viewport
from perfmon.viewmodel.timeline import Now, TimelineBuilder


def judged(**logs: list[str]) -> Diagnosis:
    """The diagnosis of logs by name."""
    return diagnose_texts({f"{name}.log": text(lines) for name, lines in logs.items()})


def found(diagnosis: Diagnosis) -> dict[str, Finding]:
    """Findings that count, by signature."""
    return {one.signature: one for one in diagnosis.findings if one.state != "pending"}


def verdict(diagnosis: Diagnosis) -> str | None:
    return diagnosis.verdict.signature if diagnosis.verdict else None


def standings(finding: Finding) -> Mapping[str, str]:
    return {one.signature: one.standing for one in finding.hypotheses}


TRACE = "needs a trace (perfmon profile)"


# --- who is to blame --------------------------------------------------------------------------------------------------
STARVED = queue()
CAUSES = {
    "producer-slow": {"queue": STARVED, "sockets": connection(verdict="producer")},
    "network-slow": {"queue": STARVED, "sockets": connection(verdict="network")},
    "parse-bound": {"queue": STARVED, "producer": peaknet(receive=0.05, load=1.4, convert=0.6)},
    "queue-overhead": {"queue": queue(put_wait=86.0)},
    "consumer-bound": {
        "queue": queue(capacity=16, depth=16, put_wait=91.0, get_wait=0.5),
        "sockets": connection(verdict="consumer"),
    },
    "consumer-dead": {
        "queue": queue(
            capacity=16, depth=lambda n: 3 if n < 25 else 16, put_wait=lambda n: 0.0 if n < 27 else 96.0,
            get_wait=lambda n: 30.0 if n < 25 else 0.0, put=lambda n: 12 if n < 25 else 0,
            get=lambda n: 12 if n < 25 else 0,
        ),
        "gpus": gpu(busy=lambda n: 62 if n < 25 else 0),
    },
}  # fmt: skip


@pytest.mark.parametrize("cause", CAUSES)
def test_the_cause_is_the_verdict(cause: str) -> None:
    assert verdict(judged(**CAUSES[cause])) == cause


def test_hypotheses_are_ranked_with_evidence_for_and_against() -> None:
    diagnosis = judged(**CAUSES["network-slow"])
    finding = found(diagnosis)["network-slow"]
    assert finding.hypotheses[0].signature == "network-slow"
    assert standings(finding)["producer-slow"] == "refuted"
    named = {one.signature: one for one in finding.hypotheses}
    assert any("network is the slow side" in value for value in named["network-slow"].supporting)
    assert any("network is the slow side" in value for value in named["producer-slow"].contradicting)
    assert "whole_pageable_share" in named["pageable-transfer"].unseen
    assert [one.standing for one in finding.hypotheses] == sorted(
        (one.standing for one in finding.hypotheses), key=("shown", "open", "refuted", TRACE).index
    )
    assert named["pageable-transfer"].standing == TRACE
    assert found(diagnosis)["data-starved"].hypotheses == finding.hypotheses
    assert found(diagnosis)["data-starved"].explained_by == "network-slow"


def test_from_the_receiver_alone_sender_and_network_stay_open() -> None:
    diagnosis = judged(queue=STARVED, sockets=connection(verdict="upstream"))
    assert verdict(diagnosis) == "data-starved"
    assert standings(found(diagnosis)["data-starved"])["producer-slow"] == "open"
    assert standings(found(diagnosis)["data-starved"])["network-slow"] == "open"


def test_the_senders_end_excludes_the_link() -> None:
    sender = [
        line.replace("host=a100-0", "host=daq-0").replace("producer_pct=0 upstream_pct=0 ", "")
        for line in connection(verdict="healthy")
    ]
    assert verdict(judged(queue=STARVED, receiver=connection(verdict="upstream"), sender=sender)) == "producer-slow"


def test_consumers_and_producers_that_both_wait_are_held_up_by_the_queue() -> None:
    both = queue(capacity=16, depth=16, put_wait=88.0, get_wait=65.0)
    assert verdict(judged(queue=both, gpus=gpu(busy=33))) == "queue-overhead"


def test_the_first_batches_of_a_pipeline_are_no_fault() -> None:
    starting = queue(
        capacity=16, depth=lambda n: 0 if n < 10 else 16, put_wait=lambda n: 0.0 if n < 10 else 90.0,
        get_wait=lambda n: 99.0 if n < 12 else 0.5, get=lambda n: 0 if n < 10 else 4, put=4,
    )  # fmt: skip
    busy = gpu(busy=lambda n: 0 if n < 12 else 97)
    assert found(judged(queue=starting, gpus=busy, sockets=connection(verdict="consumer"))) == {}


def test_without_anything_that_decides_all_hypotheses_stay_open() -> None:
    rows = [f"2026-03-02 10:{n // 15:02d}:{n % 15 * 4:02d} step={n} step_time=4.0 data_time=2.00" for n in range(40)]
    finding = found(judged(train=rows))["data-starved"]
    assert set(standings(finding).values()) == {"open", TRACE}
    assert "parse_s" in {name for one in finding.hypotheses for name in one.unseen}


def test_the_lost_time_is_that_for_which_consumers_waited() -> None:
    diagnosis = judged(queue=queue(count=300, get_wait=60.0), sockets=connection(count=300))
    assert diagnosis.verdict is not None
    assert diagnosis.verdict.lost_s == pytest.approx(0.6 * 598, rel=0.1)


# --- averages since the start lag behind the truth --------------------------------------------------------------------
def test_the_mean_since_the_start_is_not_the_rate() -> None:
    """The start has 81 s of waiting: the printed MB/s rise for minutes while the true rate is flat."""
    lines = peaknet(batches=900, receive=0.28, first_wait=81.0)
    printed = [float(line.split(" MB/s")[0].rsplit(" ", 1)[1]) for line in lines if "MB/s" in line]
    assert printed[-1] > 2 * printed[0]
    diagnosis = judged(pipeline=lines)
    rates = [value for _, value in diagnosis.metrics["produced_per_s"].series]
    assert max(rates) == pytest.approx(min(rates), rel=0.02)
    assert found(diagnosis) == {}


def test_rates_of_several_producers_are_compared_as_their_sum() -> None:
    def produced(producers: int) -> list[float]:
        words = "INFO - Producer {who}: {n}0 batches (streaming), 9.0 MB/s, {n} packets"
        lines = [f"(P pid={who}) {stamp(n * 10)} - {words.format(who=who, n=n)}"
                 for n in range(1, 31) for who in range(producers)]  # fmt: skip
        session = Session(Config())
        session.feed(session.add_source("run.log"), Block("".join(f"{line}\n" for line in lines).encode(), 0, 1))
        return list(run_of(*session.examined(detail=FIGURES), session.knowledge).samples["produced_per_s"])

    assert produced(4) == pytest.approx([4.0] * 116)
    assert produced(1) == pytest.approx([1.0] * 29)


def test_counters_that_begin_again_give_no_negative_rate() -> None:
    lines = [*queue(20), *[line.replace("08:15", "08:16") for line in queue(20)]]
    diagnosis = judged(queue=lines)
    assert diagnosis.metrics["put_per_s"].summary.min >= 0
    assert diagnosis.metrics["put_per_s"].summary.max == pytest.approx(12)


def test_processes_that_share_a_log_are_counted_apart() -> None:
    first = [line + " pid=11" for line in queue(30, put=10, get=0, get_wait=0.0)]
    second = [line + " pid=12" for line in queue(30, put=40, get=0, get_wait=0.0)]
    diagnosis = judged(queue=interleaved(first, second))
    rates = {round(value) for _, value in diagnosis.metrics["put_per_s"].series}
    assert rates == {10, 40}
    assert "get_per_s" not in diagnosis.metrics


# --- the consumer is dead: that is no starvation ----------------------------------------------------------------------
def test_actors_that_failed_while_producers_log_on_are_no_starvation() -> None:
    diagnosis = judged(pipeline=peaknet(batches=1200, receive=0.3, processed_until=-1), gpus=gpu(count=200, busy=0))
    assert verdict(diagnosis) == "consumer-dead"
    assert "data-starved" not in found(diagnosis)


def test_a_consumer_that_stopped_costs_the_time_since() -> None:
    diagnosis = judged(**CAUSES["consumer-dead"])
    assert diagnosis.verdict is not None
    assert diagnosis.verdict.lost_s == pytest.approx(120 - 50, rel=0.1)


def test_a_consumer_that_became_slower_costs_the_time_since() -> None:
    """Two and three items a second by turns: the mean is what it takes, not one of them."""
    lines = queue(count=160, every=1.0, capacity=1, depth=1, put_wait=96.0, get_wait=0.2,
                  get=lambda n: 5 if n < 80 else 2 + n % 2, put=lambda n: 5 if n < 80 else 2 + n % 2)  # fmt: skip
    diagnosis = judged(queue=lines, gpus=gpu(count=160, every=1.0, busy=lambda n: 97 if n < 80 else 50))
    assert verdict(diagnosis) == "consumer-bound"
    assert diagnosis.verdict is not None
    assert diagnosis.verdict.lost_s == pytest.approx(80 / 2, rel=0.1)


def test_a_consumer_that_pauses_as_it_always_does_lives() -> None:
    """A batch every two minutes: the queue in front of it is full in between."""
    lines = queue(count=600, capacity=4, depth=4, put_wait=97.0, get_wait=0.0, put=lambda n: n % 60 == 0,
                  get=lambda n: n % 60 == 0)  # fmt: skip
    assert "consumer-dead" not in found(judged(queue=lines, gpus=gpu(count=600, busy=97)))


def test_a_consumer_that_is_gone_is_named_soon_where_only_its_queue_is_seen() -> None:
    lines = queue(count=90, every=1.0, capacity=16, depth=16, put_wait=lambda n: 80.0 if n < 60 else 100.0,
                  get_wait=0.1, put=lambda n: 20 if n < 60 else 0, get=lambda n: 20 if n < 60 else 0)  # fmt: skip
    assert verdict(judged(queue=lines)) == "consumer-dead"
    assert "consumer-dead" not in found(judged(queue=lines[:75]))


def test_a_trainer_that_evaluates_before_a_full_queue_is_not_gone() -> None:
    lines = queue(count=110, every=1.0, capacity=16, depth=16, put_wait=lambda n: 80.0 if n < 60 else 100.0,
                  get_wait=0.1, put=lambda n: 2 if n < 60 else 0, get=lambda n: 2 if n < 60 else 0)  # fmt: skip
    steps = [f"{stamp(n / 2)} INFO step: {n} loss: 2.1" for n in range(120)]
    assert "consumer-dead" not in found(judged(queue=interleaved(lines, steps)))


def test_a_gpu_that_idles_while_its_consumer_never_waits_is_named() -> None:
    lines = queue(count=150, depth=lambda n: 60 + n % 40, get_wait=4.0, put_wait=3.0)
    assert verdict(judged(queue=lines, gpus=gpu(count=150, busy=lambda n: 40 if n % 4 == 0 else 3))) == "gpu-idle"
    assert found(judged(queue=lines, gpus=gpu(count=150, busy=94))) == {}


# --- two queues in a row ----------------------------------------------------------------------------------------------
def chain(
    fault: int,
    *,
    first_put: float,
    first_get: float,
    next_put: float,
    next_get: float,
    rate: float,
    full: tuple[int, int],
    ends: bool = False,
) -> dict[str, list[str]]:
    """The logs of a source, of a stage that takes from Q1 and puts into Q2, and of a writer, which waits in health.

    From line `fault` on they wait so much, items come at this rate, the queues hold so many; `ends`: the stage is gone.
    """
    count, put = 60 + fault, re.compile(r" get_wait=\S+")
    get = re.compile(r" put_wait=\S+")

    def side(name: str, before: float, after: float, depths: tuple[int, int], pattern: re.Pattern[str]) -> list[str]:
        counts = {"put": 0, "get": 0} | {("put" if pattern is put else "get"): lambda n: 5 if n < fault else rate}
        lines = queue(
            count=count, every=1.0, name=name, capacity=16, depth=lambda n: depths[n >= fault], **counts,
            put_wait=lambda n: before if n < fault else after, get_wait=lambda n: before if n < fault else after,
        )  # fmt: skip
        return [pattern.sub("", line) for line in lines]

    stage = interleaved(
        side("Q1", 0.0, first_get, (16, full[0]), get), side("Q2", 0.0, next_put, (0, full[1]), put)
    )  # fmt: skip
    return {
        "source": side("Q1", 50.0, first_put, (16, full[0]), put),
        "stage": stage[: 2 * fault] if ends else stage,
        "writer": side("Q2", 75.0, next_get, (0, full[1]), get),
    }


def test_a_slow_writer_is_named_by_its_queue_though_all_queues_before_it_are_full() -> None:
    logs = chain(60, first_put=75.0, first_get=0.0, next_put=75.0, next_get=0.0, rate=1, full=(16, 16))
    diagnosis = judged(**logs)
    assert diagnosis.verdict is not None
    assert (verdict(diagnosis), found(diagnosis)["consumer-bound"].identity) == ("consumer-bound", {"group": "Q2"})
    assert "room in Q2" in diagnosis.verdict.sentence
    assert diagnosis.verdict.lost_s == pytest.approx(0.8 * 60, rel=0.15)


def test_consumers_behind_the_starved_one_cost_nothing_more() -> None:
    logs = chain(60, first_put=0.0, first_get=66.0, next_put=0.0, next_get=93.0, rate=2, full=(0, 0))
    diagnosis = judged(**logs)
    assert verdict(diagnosis) == "producer-slow"
    assert diagnosis.verdict is not None
    assert diagnosis.verdict.lost_s == pytest.approx(0.66 * 60, rel=0.15)


def test_a_stage_that_is_gone_is_the_dead_consumer_though_the_next_one_waits() -> None:
    logs = chain(60, first_put=100.0, first_get=0.0, next_put=0.0, next_get=100.0, rate=0, full=(16, 0), ends=True)
    diagnosis = judged(**logs)
    assert (verdict(diagnosis), found(diagnosis)["consumer-dead"].identity) == ("consumer-dead", {"group": "Q1"})


def test_a_writer_that_waits_for_a_busy_stage_is_not_starved() -> None:
    assert (
        found(judged(**chain(60, first_put=50.0, first_get=0.0, next_put=0.0, next_get=75.0, rate=5, full=(16, 0))))
        == {}
    )


# --- bursts: the median is healthy, the mean is not -------------------------------------------------------------------
def test_a_few_long_waits_count_though_most_rows_are_healthy() -> None:
    diagnosis = judged(train=epoch(lambda n: 67.5 if n and n % 170 == 0 else 0.001, iterations=1200))
    assert diagnosis.metrics["data_share"].summary.p50 < 1
    assert verdict(diagnosis) == "data-starved"


def test_one_long_wait_at_the_start_of_an_epoch_does_not() -> None:
    for first in (8.0, 70.0):
        assert found(judged(train=epoch(0.004, first=first))) == {}


def test_a_queue_that_runs_dry_now_and_then_is_starved_by_its_mean() -> None:
    """Half a minute of items, then half a minute of none: at most moments some consumer works."""
    lines = queue(count=240, depth=lambda n: 40 if n % 30 < 9 else 0, get_wait=lambda n: 0.0 if n % 30 < 9 else 98.0,
                  put=lambda n: 40 if n % 30 < 2 else 0, get=lambda n: 9 if n % 30 < 9 else 0)  # fmt: skip
    diagnosis = judged(queue=lines, sockets=connection(count=240))
    assert verdict(diagnosis) == "producer-slow"
    assert diagnosis.verdict is not None
    assert diagnosis.verdict.lost_s == pytest.approx(0.7 * 480, rel=0.2)


@pytest.mark.parametrize("every", [1, 10, 100])
def test_a_printed_row_stands_for_the_steps_since_the_row_before(every: int) -> None:
    rows = epoch(lambda n: 0.4 + n % 7 / 35, iterations=300 * every, step=0.3, every=every)
    diagnosis = judged(train=rows)
    assert verdict(diagnosis) == "data-starved"
    assert diagnosis.verdict is not None
    assert diagnosis.verdict.lost_share == pytest.approx(0.486 / 0.786, rel=0.1)


def test_waits_of_which_no_printed_row_has_one_are_in_the_means() -> None:
    rows = epoch(lambda n: 2.0 if n % 8 == 3 and n % 10 else 0.001, iterations=2000, step=0.1)
    diagnosis = judged(train=rows)
    assert diagnosis.metrics["data_share"].summary.max < 2
    assert verdict(diagnosis) == "data-starved"
    assert diagnosis.verdict is not None
    assert "1.0 %" not in diagnosis.verdict.sentence


def test_rows_that_are_all_slow_cost_what_the_means_between_them_show() -> None:
    """A loader that is late once in ten batches, of which each tenth is printed."""
    diagnosis = judged(train=epoch(lambda n: 0.004 if n % 10 else 3.0, iterations=1200))
    assert diagnosis.metrics["data_share"].summary.p50 > 80
    assert diagnosis.verdict is not None
    assert diagnosis.verdict.signature == "data-starved"
    assert diagnosis.verdict.lost_share == pytest.approx(3.036 / 8.036, rel=0.1)


def test_one_long_wait_within_an_epoch_and_rounded_means_prove_nothing() -> None:
    assert found(judged(train=epoch(lambda n: 70.0 if n == 777 else 0.004, iterations=3000))) == {}
    assert found(judged(train=epoch(lambda n: 0.0005 if n % 2 else 0.0, iterations=3000, step=0.002))) == {}


def test_a_loader_that_becomes_slow_costs_the_time_since() -> None:
    rows = epoch(lambda n: 0.5 if n >= 2000 else 0.004, iterations=3000, step=0.3)
    timed = [
        f"{stamp(sum(0.8 if n >= 2000 else 0.304 for n in range(at * 10 + 1)))} {row}" for at, row in enumerate(rows)
    ]
    diagnosis = judged(train=timed)
    assert verdict(diagnosis) == "data-starved"
    assert diagnosis.verdict is not None
    assert diagnosis.verdict.lost_s == pytest.approx(500, rel=0.1)


# --- bursts ----------------------------------------------------------------------------------------------------------
BETWEEN = [40.0, 100.0, 100.0, 100.0, 30.0, 0.0, 0.0, 0.0]
"""What consumers wait in each second of a burst's time."""


def bursts(lasts: int, small: bool) -> list[str]:
    """A minute of a full queue, then bursts, which producers wait to hand over where the queue is small."""
    return queue(
        count=60 + lasts, every=1.0, capacity=2 if small else 24, put=4, get=4,
        depth=lambda n: 2 if n < 60 or not BETWEEN[n % 8] else 0,
        empty=lambda n: 0.0 if n < 60 else BETWEEN[n % 8],
        put_wait=lambda n: 20.0 if n < 60 else 90.0 if small and not BETWEEN[n % 8] else 0.0,
        get_wait=lambda n: 0.0 if n < 60 else BETWEEN[n % 8],
    )  # fmt: skip


def test_what_is_counted_only_at_some_times_is_explained_with_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "explain", "queue-overhead"]) == 0
    assert "(while queue_empty_share is above 50) > 30 %" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("small", [False, True])
def test_bursts_are_the_sources_even_where_the_queue_is_too_small_for_them(small: bool) -> None:
    """Puts and gets both wait, but by turns: handing over takes no time."""
    diagnosis = judged(queue=bursts(120, small))
    assert verdict(diagnosis) == "producer-slow"
    assert standings(found(diagnosis)["data-starved"])["queue-overhead"] == "refuted"
    assert diagnosis.verdict is not None
    assert diagnosis.verdict.lost_s == pytest.approx(120 * sum(BETWEEN) / 800, rel=0.15)


def test_producers_that_wait_whenever_ray_is_polled_do_not_acquit_bursts() -> None:
    """Every eight seconds, in the middle of a burst: only the consumers' own log has the time in between."""
    lines = [line.replace("put_wait=90.0% ", "") for line in bursts(60, small=True)]
    polls = [
        f"{stamp(at, '.')} [poll] queue host=node-0 name=ray/_QueueActor consumers_waiting=0 producers_waiting=1 "
        f"put_per_s={rate} get_per_s={rate} kind=ray"
        for at in range(6, 120, 8)
        for rate in (4 if at < 60 else 2,)
    ]
    diagnosis = judged(queue=lines, polls=polls, gpus=gpu(120, lambda n: 95 if n < 60 else 50, every=1.0))
    assert verdict(diagnosis) == "producer-slow"
    assert "consumer-bound" not in found(diagnosis)


def test_waits_that_come_again_are_found_soon_and_a_single_one_is_none() -> None:
    assert "data-starved" in found(judged(queue=bursts(20, small=True)))
    assert found(judged(queue=bursts(6, small=True))) == {}


# --- throughputs are equal in every steady state ----------------------------------------------------------------------
@pytest.mark.parametrize(("put_wait", "get_wait", "depth"), [(0.0, 88.0, 0), (0.0, 12.0, 90), (90.0, 0.4, 200)])
def test_equal_rates_show_nothing_who_waits_does(put_wait: float, get_wait: float, depth: int) -> None:
    diagnosis = judged(queue=queue(depth=depth, put_wait=put_wait, get_wait=get_wait))
    assert ("data-starved" in found(diagnosis)) == (get_wait > 50)


# --- a share of a capacity that no queue comes near to ----------------------------------------------------------------
def test_a_percentage_of_an_implausible_capacity_has_no_thresholds() -> None:
    lines = queue(capacity=12_800, depth=lambda n: 290 + n % 9, get_wait=3.0)
    warned = [line for one in lines for line in (one, f"{one[:23]} WARNING Potential data starvation detected in Q1")]
    diagnosis = judged(queue=warned)
    assert found(diagnosis) == {}
    assert diagnosis.metrics["queue_fill"].band is None
    assert judged(queue=queue(capacity=200, depth=150)).metrics["queue_fill"].band is not None


def test_a_low_fill_is_a_reason_to_watch_where_no_wait_is_logged() -> None:
    # It came near its capacity: it is no percentage of nothing.
    lines = queue(depth=lambda n: 190 if n < 5 else 30, get_wait=5.0)
    rows = [f"{line[:23]} INFO step: {n} loss: 2.1" for n, line in enumerate(lines)]
    bare = [line.partition(" empty=")[0] for line in lines]
    assert judged(queue=interleaved(bare, rows)).assessment.value == "watch"
    assert judged(queue=interleaved(lines, rows)).assessment.value == "healthy"


# --- a library hides what waits in the socket -------------------------------------------------------------------------
def test_a_socket_that_is_read_into_a_librarys_buffer_does_not_acquit_the_consumer() -> None:
    """ZMQ takes a thousand messages off the socket before its sender notices: the queue's own waits decide."""
    lines = queue(count=120, depth=lambda n: 12 if n < 60 else 200, put_wait=lambda n: 0.0 if n < 60 else 66.0,
                  get_wait=lambda n: 20.0 if n < 60 else 0.0, put=lambda n: 12 if n < 60 else 4,
                  get=lambda n: 12 if n < 60 else 4)  # fmt: skip
    for seen in ("healthy", "producer"):
        assert verdict(judged(queue=lines, sockets=connection(count=120, verdict=seen))) == "consumer-bound"


# --- the first batch, and the end of the stream -----------------------------------------------------------------------
def test_the_wait_for_the_first_packet_is_none() -> None:
    assert found(judged(pipeline=peaknet(batches=400, receive=0.28, first_wait=81.0))) == {}


def test_a_producer_that_listens_on_after_the_last_batch_is_not_starved() -> None:
    lines = peaknet(batches=200, receive=0.3)
    words = "Producer 0: Waiting for data on tcp://0.0.0.0:12321 (no data after 10s)"
    after = [f"(LightweightSocketProducer pid=20114) 2026-03-02 08:1{7 + n // 6}:{n % 6}0,000 - WARNING - {words}"
             for n in range(18)]  # fmt: skip
    assert "data-starved" not in found(judged(pipeline=[*lines, *after]))


def test_a_queue_that_is_empty_because_all_is_done_is_not_starved() -> None:
    lines = queue(count=120, capacity=16, depth=lambda n: 9 if n < 60 else 0, put=lambda n: 12 if n < 60 else 0,
                  get=lambda n: 12 if n < 60 else 0, get_wait=lambda n: 4.0 if n < 60 else 100.0)  # fmt: skip
    assert "data-starved" not in found(judged(queue=lines))


# --- the own times of producers, without a queue or GPU that is looked at ---------------------------------------------
PACED = {
    "producer-slow": peaknet(batches=160, receive=3.0),
    "parse-bound": peaknet(batches=160, load=1.8),
    "queue-overhead": peaknet(batches=160, hand_over=2.0),
}


@pytest.mark.parametrize("cause", PACED)
@pytest.mark.parametrize("polled", [False, True])
def test_what_takes_a_producers_time_is_the_verdict_with_and_without_a_gpu(cause: str, polled: bool) -> None:
    lines, lasts = PACED[cause], 160 * (3.0 if cause == "producer-slow" else 2.2)
    gpus = {"gpus": gpu(count=int(lasts / 2), busy=lambda n: (0, 0, 12, 40, 5)[n % 5])} if polled else {}
    diagnosis = judged(pipeline=lines, **gpus)
    assert verdict(diagnosis) == cause
    assert diagnosis.verdict is not None
    assert diagnosis.verdict.lost_s > 0.5 * lasts


def test_a_cause_holds_as_long_as_its_evidence_in_a_long_run() -> None:
    diagnosis = judged(pipeline=peaknet(batches=900, receive=3.0), gpus=gpu(count=275, every=10, busy=12))
    assert verdict(diagnosis) == "producer-slow"
    assert diagnosis.verdict is not None
    assert diagnosis.verdict.lost_share > 0.8


def test_the_receivers_word_that_nothing_comes_is_proof_before_any_batch_was_reported() -> None:
    lines = peaknet(batches=40, receive=12.5)
    assert not any("Processed" in line for line in lines)
    for gpus in ({}, {"gpus": gpu(count=250, busy=lambda n: 40 if n % 6 == 0 else 0)}):
        diagnosis = judged(pipeline=lines, **gpus)
        assert verdict(diagnosis) == "producer-slow"
        assert diagnosis.verdict is not None
        assert diagnosis.verdict.lost_s > 0.8 * 500


def test_batches_that_pile_up_before_a_slow_consumer_are_not_waited_for() -> None:
    lines = [line for line in peaknet(batches=400, receive=2.0) if "Processed" not in line or "0 batches" in line]
    half = [line for line in lines if "Processed" not in line or int(line.split("Processed ")[1].split()[0]) % 100]
    slower = [line.replace("Processed 150", "Processed 100").replace("Processed 250", "Processed 150")
              .replace("Processed 350", "Processed 200") for line in half]  # fmt: skip
    assert "data-starved" not in found(judged(pipeline=slower, gpus=gpu(count=400, busy=40)))


def test_lines_that_ray_left_out_make_no_wait() -> None:
    lines = peaknet(batches=1200, receive=0.05, push=0.3)
    shortened = [line + " [repeated 12x across cluster]" if "Successfully pushed" in line else line
                 for number, line in enumerate(lines) if "batches" in line or number // 5 % 15 == 0]  # fmt: skip
    assert found(judged(pipeline=shortened)) == {}


# --- healthy pipelines ------------------------------------------------------------------------------------------------
HEALTHY = {
    "a full prefetch queue": {"queue": queue(capacity=8, depth=8, put_wait=90.0, get_wait=0.4)},
    "the GPU is the limit": {
        "queue": queue(capacity=16, depth=16, put_wait=91.0, get_wait=0.5),
        "gpus": gpu(busy=98),
        "sockets": connection(verdict="consumer"),
    },
    "a writer behind it": {
        "queue": interleaved(
            queue(name="Q1", capacity=16, depth=14, put_wait=40.0, get_wait=1.0),
            queue(name="Q2", capacity=16, get_wait=94.0),
        ),
        "gpus": gpu(busy=97),
    },
    "the same without its GPU": {
        "queue": interleaved(
            queue(name="Q1", capacity=16, depth=14, put_wait=40.0, get_wait=1.0),
            queue(name="Q2", capacity=16, get_wait=94.0),
        )
    },
    "balanced": {
        "queue": queue(depth=lambda n: 60 + n % 40, get_wait=8.0, put_wait=3.0),
        "sockets": connection(verdict="healthy"),
    },
    "quick batches": {"pipeline": peaknet(batches=2000, receive=0.05)},
    "two or three batches a second": {
        "queue": queue(count=150, every=1.0, capacity=1, depth=1, put_wait=95.0, get_wait=0.2, put=2,
                       get=lambda n: 2 + (n % 3 == 2)),
    },
    "one pause of a full queue's source": {
        "queue": queue(
            count=180, every=1.0, capacity=16, depth=lambda n: 0 if 90 <= n < 97 else 14,
            get_wait=lambda n: 100.0 if 90 <= n < 97 else 0.3,
        )
    },
    "one pause of the source": {"pipeline": peaknet(batches=800, receive=lambda n: 25.0 if n == 400 else 0.3)},
    "a loader that keeps up": {"train": epoch(0.004)},
}  # fmt: skip


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_pipelines_give_nothing(name: str) -> None:
    assert found(judged(**HEALTHY[name])) == {}


# --- the timeline -----------------------------------------------------------------------------------------------------
def test_each_of_several_queues_has_its_own_lane() -> None:
    full, empty = queue(name="received", capacity=20, depth=18), queue(name="parsed", capacity=20, depth=1)
    for logs, names in ((full, {"queue_fill"}), ([*full, *empty], {"received queue_fill", "parsed queue_fill"})):
        session = Session(Config())
        session.feed(session.add_source("run.log"), Block("".join(f"{line}\n" for line in logs).encode(), 0, 1))
        snapshot = session.snapshot()
        run = snapshot.run
        now = Now(Viewport(run.start, run.end, 20), run.end, align(session.store), snapshot, ())
        board = TimelineBuilder(session.store, session.recent, session.knowledge.bands).build(now)
        lanes = {lane.name: lane for lane in board.metrics if lane.metric == "queue_fill"}
        assert lanes.keys() == names
    shown = {lane.group: (lane.now, lane.critical_share) for lane in lanes.values()}
    assert shown == {"received": (90.0, 0.0), "parsed": (5.0, 1.0)}


def test_a_share_and_its_means_have_one_lane() -> None:
    rows = (
        f"Epoch: [0][{n:4}/5004]\tTime  0.500 ( 0.500)\tData  0.250 ( 0.250)\tLoss 6.8750e+00 (6.9010e+00)\n"
        for n in range(0, 400, 10)
    )
    session = Session(Config())
    session.feed(session.add_source("run.log"), Block("".join(rows).encode(), 0, 1))
    snapshot = session.snapshot()
    now = Now(Viewport(snapshot.run.start, snapshot.run.end, 20), snapshot.run.end, align(session.store), snapshot, ())
    builder = TimelineBuilder(session.store, session.recent, session.knowledge.bands)
    assert {"data_share", "epoch_data_share", "lasting_data_share"} <= snapshot.metrics.keys()
    lanes = [lane.name for lane in builder.build(now).metrics]
    assert [name for name in lanes if name.endswith("data_share")] == ["data_share"]
    charted = {lane.name for lane in builder.build(replace(now, charted=("epoch_data_share",), points=40)).metrics}
    assert "epoch_data_share" in charted


# --- pauses of a healthy trainer --------------------------------------------------------------------------------------
def paused(every: int, lasts: int, empty: bool, busy: float, seconds: int = 1200) -> dict[str, list[str]]:
    """A trainer that takes nothing for some seconds at the end of each period: its queue is full then, or empty."""

    def off(n: int) -> bool:
        return n % every >= every - lasts

    lines = queue(
        count=seconds, every=1.0, capacity=32, depth=lambda n: 0 if off(n) and empty else 32, empty=100.0,
        put_wait=lambda n: 0.0 if off(n) and empty else 92.0, get_wait=lambda n: 100.0 if off(n) and empty else 0.3,
        put=lambda n: 0 if off(n) else 10, get=lambda n: 0 if off(n) else 10,
    )  # fmt: skip
    at_work = [n for n in range(seconds) if not off(n)]
    steps = [f"{stamp(n + 0.5)} INFO step: {step} loss: 2.1" for step, n in enumerate(at_work)]
    return {"train": interleaved(lines, steps), "gpus": gpu(seconds, lambda n: busy if off(n) else 97, every=1.0)}


@pytest.mark.parametrize("lasts", [8, 15, 22])
def test_workers_that_start_again_for_each_epoch_are_no_starvation(lasts: int) -> None:
    logs = paused(300, lasts, True, 0)
    assert not found(judged(**logs))
    assert not found(judged(queue=[line for line in logs["train"] if "utilization" in line]))


@pytest.mark.parametrize(("lasts", "busy"), [(12, 0), (25, 0), (40, 0), (75, 62)])
def test_a_trainer_that_writes_checkpoints_or_evaluates_is_neither_slow_nor_dead(lasts: int, busy: float) -> None:
    assert not {"consumer-bound", "consumer-dead"} & found(judged(**paused(300, lasts, False, busy))).keys()


@pytest.mark.parametrize("polled", [True, False])
@pytest.mark.parametrize(("lasts", "state"), [(27, None), (45, "stall"), (90, "stall")])
def test_a_single_long_wait_is_a_pause_of_the_run_at_its_cost(lasts: int, state: str | None, polled: bool) -> None:
    """Nothing comes, once: the queue starves nobody, the run stands still."""
    logs = paused(600, lasts, True, 0, seconds=900)
    result = judged(**(logs if polled else {"train": logs["train"]}))
    assert not {"data-starved", "producer-slow", "gpu-idle"} & found(result).keys()
    assert verdict(result) == state
    if result.verdict is not None:
        assert result.verdict.lost_s == pytest.approx(lasts, abs=2)


def test_long_waits_that_come_again_are_starvation() -> None:
    result = judged(**paused(60, 25, True, 0))
    assert verdict(result) == "producer-slow"
    assert result.verdict is not None
    assert result.verdict.lost_s == pytest.approx(1200 * 25 / 60, rel=0.1)


def test_a_trainer_that_is_gone_is_named_after_the_time_of_a_checkpoint() -> None:
    logs = paused(300, 150, False, 0)
    gone = [line for line in logs["train"] if line < stamp(290)]
    assert (
        verdict(judged(train=gone, gpus=[line for line in logs["gpus"] if line < stamp(290, ".")])) == "consumer-dead"
    )


@pytest.mark.parametrize("every", [1, 5])
def test_a_consumer_that_died_is_never_called_slow_first(every: int) -> None:
    """Its own log ends with it: how soon that shows depends on how often it was written."""
    died = 120
    producers = queue(count=180, every=1.0, capacity=16, depth=16, put_wait=92.0, get=0)
    producers = [line.split(" get_wait")[0] for line in producers]
    consumer = queue(count=died // every, every=every, capacity=16, depth=16, get_wait=0.4, put=0)
    consumer = [re.sub(r" put_wait=\S+", "", line) for line in consumer]
    gpus = gpu(180, lambda n: 75 if n < died else 0, every=1.0)
    named = set[str]()
    for after in range(6, 60, 6):
        until = stamp(died + after)
        logs = {"producers": producers, "consumer": consumer, "gpus": gpus}
        seen = {name: [line for line in lines if line.replace(".", ",") < until] for name, lines in logs.items()}
        named |= found(judged(**seen)).keys() & {"consumer-bound", "consumer-dead"}
    assert named == {"consumer-dead"}


def test_a_consumer_that_takes_an_item_now_and_then_is_slow() -> None:
    lines = queue(count=400, every=1.0, capacity=8, depth=8, put_wait=97.0, get_wait=0.2,
                  put=lambda n: 2 if n < 200 else n % 20 == 0, get=lambda n: 2 if n < 200 else n % 20 == 0)  # fmt: skip
    assert verdict(judged(queue=lines, gpus=gpu(400, lambda n: 97 if n < 200 else 30, every=1.0))) == "consumer-bound"
