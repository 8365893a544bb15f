"""The rank that is behind, by kind; and what the evidence does not decide."""

from __future__ import annotations

from perfmon.hangs import Answer, Evidence, GroupKey, Kind, RankState, Verdict, judge, next_steps, summary

from .builders import OTHER, PAIR, WORLD, job, op


def answer_of(evidence: Evidence) -> tuple[Answer, tuple[int, ...], tuple[int, ...]]:
    """Answer, named ranks and candidates."""
    verdict, _ = judge(evidence)
    return verdict.answer, verdict.ranks, verdict.candidates


def kinds(verdict: Verdict) -> set[Kind]:
    return {cause.kind for cause in verdict.causes}


def test_a_rank_that_never_enqueued_the_collective() -> None:
    evidence = job({rank: [op(4, finished=True), op(5)] for rank in (0, 1, 3)} | {2: [op(4, finished=True)]})
    verdict, graph = judge(evidence)
    assert (verdict.answer, verdict.ranks) == (Answer.NAMED, (2,))
    assert verdict.confidence == "3 of 3 waiting ranks wait for it"
    assert graph.waits_for(0) == {2}
    assert summary(verdict, evidence) == (
        "rank 2 has no outstanding operation and has not launched all_reduce 5 in default_pg;"
        " 3 of 3 waiting ranks wait for it"
    )


def test_one_rank_alone_in_an_operation_is_ahead_or_the_others_are_behind() -> None:
    """A collective under `if rank == 0` looks like a majority that is late."""
    evidence = job({rank: [op(4, finished=True)] for rank in (1, 2, 3)} | {0: [op(4, finished=True), op(5)]})
    verdict, _ = judge(evidence)
    assert (verdict.answer, verdict.ranks, verdict.candidates) == (Answer.CANDIDATES, (), (0, 1, 2, 3))
    assert summary(verdict, evidence) == (
        "rank 0 alone is in all_reduce 5 in default_pg, which ranks 1-3 have not launched: either it is ahead (a"
        " collective under `if rank == 0`), or ranks 1-3 are behind"
    )
    assert "call site of rank 0" in next_steps(verdict)[0]


def test_the_chain_is_followed_to_its_end() -> None:
    """Ranks 2 and 3 wait for 0 and 1, 0 waits for 1 in another group, and 1 for none."""
    evidence = job({0: [op(1, PAIR, record=9)], 1: [op(4, finished=True)], 2: [op(5)], 3: [op(5)]})
    assert answer_of(evidence) == (Answer.NAMED, (1,), ())


def test_a_rank_whose_peers_have_finished_has_a_device_that_hangs() -> None:
    evidence = job(
        {0: [op(7, PAIR, record=1)], 1: [op(7, PAIR, record=1, finished=True), op(5)], 2: [op(5)], 3: [op(5)]}
    )
    verdict, _ = judge(evidence)
    assert (verdict.answer, verdict.ranks, verdict.causes[0].among) == (Answer.NAMED, (0,), (1,))
    assert kinds(verdict) == {Kind.DEVICE}


def test_counters_replace_entries_that_are_not_listed() -> None:
    """Dumps of what is outstanding alone: rank 1 has finished number 7 by its counters."""
    evidence = job(
        {0: [op(7, PAIR, record=1)], 1: [op(5)], 2: [op(5)], 3: [op(5)]},
        {0: {PAIR: (7, 6), WORLD: (4, 4)}, 1: {PAIR: (7, 7), WORLD: (5, 4)}},
    )
    assert answer_of(evidence) == (Answer.NAMED, (0,), ())


def test_the_minority_is_in_another_operation() -> None:
    evidence = job({rank: [op(5, name="broadcast" if rank == 2 else "all_reduce")] for rank in range(4)})
    verdict, _ = judge(evidence)
    assert (verdict.answer, verdict.ranks) == (Answer.NAMED, (2,))
    assert verdict.causes[0].detail == "all_reduce on 3 ranks; broadcast on 1 rank"


def test_the_minority_has_another_size_even_if_the_others_finished() -> None:
    evidence = job({rank: [op(5, numel=5 if rank == 1 else 4, finished=rank != 1)] for rank in range(4)})
    verdict, _ = judge(evidence)
    assert (verdict.ranks, kinds(verdict)) == ((1,), {Kind.MISMATCH})


def test_sizes_of_all_to_all_differ_as_a_matter_of_course() -> None:
    evidence = job({rank: [op(5, name="all_to_all", numel=100 + rank)] for rank in range(4)})
    assert answer_of(evidence)[0] is Answer.ARRIVED


def test_two_ranks_that_differ_are_both_candidates() -> None:
    evidence = job({0: [op(3, PAIR, numel=4)], 1: [op(3, PAIR, numel=8)], 2: [op(5)], 3: [op(5)]})
    assert answer_of(evidence) == (Answer.CANDIDATES, (), (0, 1))


def test_all_arrived_blames_no_rank() -> None:
    evidence = job({rank: [op(5)] for rank in range(4)})
    verdict, _ = judge(evidence)
    assert (verdict.answer, verdict.ranks, verdict.candidates) == (Answer.ARRIVED, (), ())
    assert summary(verdict, evidence).startswith("no rank is behind: ranks 0-3 have all arrived")


def test_a_rank_without_a_dump_is_missing() -> None:
    evidence = job({rank: [op(5)] for rank in (0, 1, 2)})
    verdict, _ = judge(evidence)
    assert (verdict.answer, verdict.ranks, kinds(verdict)) == (Answer.NAMED, (3,), {Kind.MISSING})
    assert verdict.reasons == ["no dump or line of 1 of 4 ranks"]


def test_many_ranks_without_a_dump_are_no_verdict() -> None:
    assert answer_of(job({0: [op(5)], 1: [op(5)]})) == (Answer.CANDIDATES, (), (2, 3))
    assert answer_of(job({0: [op(5)]})) == (Answer.UNKNOWN, (), ())


def test_a_lost_dump_next_to_a_proven_cause_is_a_candidate() -> None:
    evidence = job({0: [op(5)], 1: [op(4, finished=True)], 2: [op(5)]})
    assert answer_of(evidence) == (Answer.NAMED, (1,), (3,))


def test_one_rank_in_another_group_than_the_others_that_wait_for_it() -> None:
    """All wait for rank 3, and it waits for all of its other group."""
    group = GroupKey("7", (1, 2, 3))
    evidence = job({0: [op(5)], 1: [op(5)], 2: [op(5)], 3: [op(9, group)]})
    verdict, _ = judge(evidence)
    assert (verdict.answer, verdict.ranks, kinds(verdict)) == (Answer.NAMED, (3,), {Kind.ORDER})


def test_of_two_that_wait_for_each_other_either_may_have_left_something_out() -> None:
    """Rank 3 may be in an operation too many, or rank 2 may have left it out."""
    assert answer_of(job({0: [op(5)], 1: [op(5)], 2: [op(5)], 3: [op(9, OTHER)]})) == (Answer.CANDIDATES, (), (2, 3))


def test_two_ranks_in_opposite_order_are_a_cycle_without_a_culprit() -> None:
    again = op(3, PAIR, record=6)
    first = op(3, PAIR, record=4)
    evidence = job({0: [op(5), again], 1: [first, op(5)], 2: [op(5)], 3: [op(5)]})
    verdict, _ = judge(evidence)
    assert verdict.ranks in ((), (1,))
    assert 1 in {*verdict.ranks, *verdict.candidates}


def test_send_and_receive_wait_for_the_peer_alone() -> None:
    pipe = PAIR
    evidence = job({0: [op(3, pipe, "send", peer=1)], 1: [op(2, finished=True)], 2: [op(5)], 3: [op(5)]})
    verdict, graph = judge(evidence)
    assert graph.waits_for(0) == {1}
    assert verdict.ranks == (1,)


def test_a_send_and_its_receive_are_together() -> None:
    evidence = job({0: [op(3, PAIR, "send", peer=1)], 1: [op(8, PAIR, "recv", peer=0)], 2: [op(5)], 3: [op(5)]})
    verdict, graph = judge(evidence)
    assert graph.waits_for(0) == set()
    assert Kind.ARRIVED in kinds(verdict)


def test_an_operation_of_one_side_is_matched_by_the_other() -> None:
    evidence = job({0: [op(3, PAIR, "send", peer=1)]} | {rank: [op(2, finished=True)] for rank in (1, 2, 3)})
    assert "rank 1 has no outstanding operation and has not launched the recv that matches send to rank 1 in" in (
        summary(judge(evidence)[0], evidence)
    )


def test_a_send_and_a_receive_of_different_sizes_are_a_tie() -> None:
    send, receive = op(3, PAIR, "send", peer=1, numel=8), op(8, PAIR, "recv", peer=0, numel=4)
    verdict, _ = judge(job({0: [send], 1: [receive], 2: [op(5)], 3: [op(5)]}))
    assert (verdict.answer, verdict.candidates) == (Answer.CANDIDATES, (0, 1))
    assert verdict.causes[0].detail == "send of 8 elements, recv of 4"


def test_a_ring_buffer_that_is_too_small_is_no_verdict() -> None:
    """The counters show that number 3 is the oldest, the dump begins with number 5."""
    evidence = job({rank: [op(5)] for rank in range(4)}, {rank: {WORLD: (5, 2)} for rank in range(4)})
    verdict, _ = judge(evidence)
    assert (verdict.answer, verdict.ranks) == (Answer.UNKNOWN, ())
    assert verdict.reasons == ["the dumps of 4 ranks do not reach back to the oldest operation"]


def test_a_torn_dump_proves_nothing_about_what_came_after_the_tear() -> None:
    evidence = job({rank: [op(4, finished=True), op(5)] for rank in (0, 1, 3)} | {2: [op(3, finished=True)]})
    evidence.states[2].truncated = True
    assert answer_of(evidence)[1] == ()


def test_nothing_outstanding_is_no_hang() -> None:
    evidence = job({rank: [op(5, finished=True)] for rank in range(4)})
    assert answer_of(evidence) == (Answer.NO_HANG, (), ())


def test_members_that_are_not_known_are_no_verdict() -> None:
    evidence = job({0: [op(1, GroupKey("hash"))], 1: [], 2: [], 3: []})
    assert answer_of(evidence)[1] == ()


def test_four_thousand_ranks_take_no_pairs() -> None:
    group = GroupKey("0", tuple(range(4_000)))
    states = {rank: [op(5, group)] for rank in range(4_000) if rank != 77}
    evidence = job(states | {77: [op(4, group, finished=True)]})
    assert answer_of(evidence) == (Answer.NAMED, (77,), ())


def test_a_state_knows_its_outstanding_operations() -> None:
    state = RankState(0, "x", [op(1, finished=True), op(2)])
    assert [one.seq for one in state.outstanding()] == [2]
