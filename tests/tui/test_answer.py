"""The rows that answer the question: what is proven, what is not, and of which moment it is known."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from builders import lane, with_metrics
from hosts import PLAIN, SKIN
from machines import LINKS, gpu, reading, seen
from pictures import START, alert, picture, source
from snapshots import HOSTILE, finding, healthy, metric, snapshot

from perfmon.core.model import Progress, TimeBase
from perfmon.core.text import format_seconds, short_duration
from perfmon.diagnosis.result import Assessment, ConditionState, EvidenceLine, Goal, LedgerEntry
from perfmon.rules import Pace, Phase
from perfmon.sources.formats import in_words
from perfmon.sources.pollers.reading import Area
from perfmon.tui.render.alert_page import state_page, without_alert
from perfmon.tui.render.explanation import why_row
from perfmon.tui.render.header_footer import HeaderInfo, header_row, scrubber_in
from perfmon.tui.render.rows import Row, cells, moment_text, styled
from perfmon.tui.render.summary import answer_rows, ledger_row, verdict_row
from perfmon.tui.time_view import TimeNavigation
from perfmon.viewmodel import AlertState, Freshness, Level, MonitorState, Recording, RunState, Viewport


def text(row: Row) -> str:
    """What stands in a row."""
    return "".join(message for message, _ in row)


def met(value: str, limit: str = "", held: bool = True) -> ConditionState:
    """A condition with the value that it met."""
    return ConditionState(in_words(f"{value} ({limit})"), held, value, limit)


def why(*conditions: ConditionState, width: int = 140, rivals: tuple[str, ...] = ()) -> str:
    """The row of a verdict with these conditions."""
    found = finding(conditions=conditions, advice=("Go.",), confused_with=rivals)
    return text(why_row(picture(snapshot=snapshot(findings=(found,))), width, PLAIN))


def test_a_value_that_proves_and_fails_is_told_once_and_beside_it_what_it_failed() -> None:
    queue = met("queue_ms 4.2 s", "critical > 1 s")
    more = met("queue_ms 4.2 s", "> 10 s", False)
    for conditions in ((queue, more), (more, queue)):
        message = why(*conditions)
        assert message.count("queue time 4.2 s") == 1
        assert "✗ queue time 4.2 s" in message
        assert "not queue time > 10 s" in message


def test_conditions_of_different_values_are_all_told() -> None:
    message = why(
        met("queue_ms 4.2 s", "critical > 1 s"),
        met("other_ms 6.1 s", "critical > 5 s", False),
        met("other_ms 6.1 s", "< 9 s", False),
    )
    assert "✗ queue time 4.2 s" in message
    assert message.count("not other_ms 6.1 s") == 1


@pytest.mark.parametrize(
    ("value", "limit", "result"),
    [
        ("queue_ms 4.2 s", "critical > 1 s", "✗ queue time 4.2 s (critical > 1 s)"),
        ("queue_ms 500 ms", "warning > 100 ms", "! queue time 500 ms (warning > 100 ms)"),
        ("queue_ms 87 ms", "good < 100 ms", "✓ queue time 87 ms (good < 100 ms)"),
        ("queue_ms soon", "", "• queue time soon  "),
        ("max of inflight over 600 s 128", "> 32", "• in flight 128 (> 32)"),
        ("waiting / running 0.72", "> 0.5", "• waiting requests / running requests 0.72 (> 0.5)"),
    ],
)
def test_a_value_is_marked_by_where_it_stands_in_its_band(value: str, limit: str, result: str) -> None:
    assert result in why(met(value, limit), met("rpc_ms 1.2 s"))


def test_one_reason_is_a_sentence_where_there_is_room() -> None:
    one = ConditionState("the trainer waits for 65 % of its step (limit: 50 %)", True, "wait_share 65 %", "> 50 %")
    assert "• the trainer waits for 65 % of its step (limit: 50 %)  ▸ Go." in why(one)
    assert "• wait_share 65 %  ▸ Go." in why(one, width=44)


def test_ratios_are_in_words_where_there_is_room() -> None:
    sentence = "the KV cache is 98.5 % full (limit: 90 %), 70 % as many requests wait as run (limit: 50 %)"
    ratio = ConditionState(sentence, True, "kv_usage 98.5 %, waiting / running 0.70", "")
    queue = met("queue_ms 4.2 s", "critical > 1 s")
    assert f"• {sentence}  ✗ queue time 4.2 s (critical > 1 s)  ▸ Go." in why(ratio, queue)
    assert "• the KV cache is 98.5 % full, 70 % as many requests wait as run  ▸ Go." in why(ratio, width=80)
    assert "• KV cache use 98.5 %, waiting / running requests 0.70  ▸ Go." in why(ratio, width=66)


def test_limits_are_left_out_where_all_of_them_have_no_room() -> None:
    queue = met("queue_ms 4.2 s", "critical > 1 s")
    flight = met("inflight 128", "> 32")
    assert "critical" in why(queue, flight, width=100)
    assert why(queue, flight, width=46) == "  ✗ queue time 4.2 s  • in flight 128  ▸ Go."


def test_rivals_are_named_with_the_reason_where_there_is_room_and_never_one_that_was_found() -> None:
    queue = met("queue_ms 4.2 s", "critical > 1 s")
    rivals = ("slow-weight-load: there the RPC itself is long", "frontend-queue: that is this one")
    named = "not slow-weight-load (there the RPC itself is long)  thresholds: seeds (B learns)  next"
    assert named in why(queue, width=200, rivals=rivals)
    assert "frontend-queue" not in why(queue, width=200, rivals=rivals)
    assert "slow-weight-load" not in why(queue, width=149, rivals=rivals)
    long = (f"slow-weight-load: {'there it is long ' * 9}",)
    assert "not slow-weight-load  " in why(queue, width=150, rivals=long)


def test_how_long_it_lasts_grows_with_the_present_and_is_past_in_silence() -> None:
    shown = picture(alert(began=START, last=START + 590.0))
    assert " ongoing 10m" in text(verdict_row(shown, 200, PLAIN))
    assert " ongoing 15m" in text(verdict_row(replace(shown, now=START + 900.7), 200, PLAIN))
    assert shown.snapshot is not None
    over = replace(shown.snapshot, run=replace(shown.snapshot.run, state=Progress.FINISHED))
    assert " for 10m" in text(verdict_row(replace(shown, snapshot=over), 200, PLAIN)), "nothing goes on in it"
    unknown = alert(state=AlertState.UNKNOWN, began=START, last=START + 590.0, until=START + 600.0)
    for now, stale_s in ((660.0, 120.0), (900.0, 300.0), (900.0, 3000.0)):
        message = text(verdict_row(replace(shown, alerts=(unknown,), now=START + now, stale_s=stale_s), 200, PLAIN))
        assert f"SILENT  no log output for {format_seconds(stale_s)}" in message
        assert "before: FRONT-END QUEUE SATURATION  lost 31 % of " in message
        advice = text(why_row(replace(shown, alerts=(unknown,), now=START + now, stale_s=stale_s), 200, PLAIN))
        assert advice.startswith(f"  {PLAIN.glyph('next')} Does the process still run")


def test_the_rank_that_is_behind_is_shown_without_the_reason() -> None:
    sentence = (
        "no progress for 2m; behind: ranks 9, 14 (all_to_all 5 in EXPERT (72); 14 of 14 waiting ranks wait for it)"
    )
    whole = snapshot()
    assert whole.verdict is not None
    shown = picture(alert(), snapshot=replace(whole, verdict=replace(whole.verdict, sentence=sentence)))
    assert text(verdict_row(shown, 120, PLAIN)).rstrip().endswith("  behind: ranks 9, 14")


def test_what_was_over_meanwhile_is_not_said_to_have_lasted() -> None:
    again = alert(began=START, since=START + 400.0, last=START + 590.0)
    message = text(verdict_row(picture(again), 200, PLAIN))
    assert f"since {moment_text(START, TimeBase.WALL)}" in message
    assert " ongoing " not in message


@pytest.mark.parametrize(
    ("width", "words"), [(200, "no output from orchestrator.log for 2m"), (60, "SILENT 2m  for 7m 40s")]
)
def test_a_verdict_whose_own_log_fell_silent_says_so_while_others_go_on(width: int, words: str) -> None:
    sources = (source(freshness=Freshness.STALE, age_s=120.0), source(index=1, name="trainer.log"))
    shown: MonitorState = picture(alert(state=AlertState.UNKNOWN, until=START + 500.0), sources=sources)
    assert words in text(verdict_row(shown, width, PLAIN))
    assert "SILENT" not in text(verdict_row(picture(alert(), sources=sources), width, PLAIN))


def test_a_silent_log_is_called_by_what_tells_it_from_the_others() -> None:
    folder = "/home/somebody/outputs/2026-08-21/a-long-name-of-a-run/logs"
    names = (f"{folder}/trainer.log", f"{folder}/orchestrator.log")
    sources = tuple(
        source(index=at, name=name, freshness=Freshness.STALE, age_s=124.0 + at) for at, name in enumerate(names)
    )
    well = picture(snapshot=healthy(), sources=sources)
    assert "SILENT  no output from orchestrator.log and 1 more" in text(verdict_row(well, 120, PLAIN))
    assert "(trainer.log, orchestrator.log)" in text(verdict_row(replace(well, stale_s=125.0), 120, PLAIN))
    evidence = tuple(replace(line, source=names[1]) for line in finding().evidence)
    unknown = alert(state=AlertState.UNKNOWN, until=START + 500.0, finding=finding(evidence=evidence))
    message = text(verdict_row(picture(unknown, sources=sources), 150, PLAIN))
    assert "no output from orchestrator.log for 2m 05s" in message


def test_a_silent_run_is_that_first_and_what_it_was_before_then() -> None:
    silent = replace(picture(alert(state=AlertState.UNKNOWN, until=START + 500.0)), stale_s=3725.0)
    message = text(verdict_row(silent, 80, PLAIN))
    assert "SILENT  no log output for 1h 02m" in message
    assert "before: FRONT" in message
    assert len(message) <= 80


@pytest.mark.parametrize("until", [None, START + 4000.0])
def test_a_verdict_that_speaks_of_the_silence_is_not_stale_by_it(until: float | None) -> None:
    message = text(verdict_row(replace(picture(alert(until=until)), stale_s=3725.0), 200, PLAIN))
    assert "SILENT" not in message
    assert "lost 31 %" in message


@pytest.mark.parametrize(
    ("width", "result"),
    [
        (60, ["frontend-queue 31 %"]),
        (80, ["frontend-queue 31 %", "generation-contention 53 %"]),
        (120, ["frontend-queue 31 %", "generation-contention 53 %", "productive 16 %"]),
    ],
)
def test_the_bar_names_the_cause_of_the_verdict_before_what_follows_from_it(width: int, result: list[str]) -> None:
    ledger = (
        LedgerEntry("generation-contention", 318.0, 0.53),
        LedgerEntry("frontend-queue", 186.0, 0.31),
        LedgerEntry("productive", 96.0, 0.16),
    )
    seen = snapshot()
    message = text(
        ledger_row(picture(snapshot=replace(seen, run=replace(seen.run, wall_s=600.0), ledger=ledger)), width, PLAIN)
    )
    assert len(message) <= width
    places = [message.find(words) for words in result]
    assert -1 not in places
    assert places == sorted(places)
    assert message.count("%") == len(result)


@pytest.mark.parametrize(
    ("width", "title"), [(120, "a-folder-of-a-long-name/logs"), (80, "demo frontend-queue"), (60, "run")]
)
def test_the_time_is_told_before_what_perfmon_costs_and_how_fast_lines_come(width: int, title: str) -> None:
    played = picture(position_s=796.0, duration_s=3600.0, speed=20.0, state=RunState.REPLAY)
    place = HeaderInfo(title, 600.0, cpu_percent=1.6, rss_bytes=61 << 20)
    message = text(header_row(played, place, width, PLAIN))
    assert len(message) == width
    assert re.search(r" \d\d:\d\d:\d\d $", message)
    assert "cpu 1.6%" in text(header_row(played, place, 180, PLAIN))


@pytest.mark.parametrize(
    ("state", "position_s", "result", "done"),
    [
        (RunState.REPLAY, 900.0, "REPLAY ▷ x20 15:00/1:00:00", 2),
        (RunState.PAUSED, 3600.0, "PAUSED ‖  space plays 1:00:00/1:00:00", 10),
        (RunState.ENDED, 3600.0, "ENDED ■ space replays 1:00:00/1:00:00", 10),
    ],
)
def test_a_replay_has_a_bar_and_names_the_key_that_goes_on(
    state: RunState, position_s: float, result: str, done: int
) -> None:
    played = picture(position_s=position_s, duration_s=3600.0, speed=20.0, state=state)
    row = header_row(played, HeaderInfo("run", 600.0), 160, PLAIN)
    assert result in text(row)
    bar = scrubber_in(row, PLAIN)
    assert bar is not None
    assert text(row)[bar[0] : bar[1]] == "█" * done + "·" * (10 - done)
    assert scrubber_in(header_row(played, HeaderInfo("run", 600.0), 80, PLAIN), PLAIN) is None


def test_a_replay_shows_where_it_stands_whatever_it_plays() -> None:
    whole = snapshot()
    whole = replace(whole, run=replace(whole.run, state=Progress.FINISHED))
    played = picture(snapshot=whole, position_s=5.0, duration_s=34.0, speed=1.0, stale_s=100.0)
    for state, words in (
        (RunState.REPLAY, "REPLAY ▷ x1 0:05/0:34"),
        (RunState.ENDED, "ENDED ■ space replays 0:05/0:34"),
    ):
        assert words in text(header_row(replace(played, state=state), HeaderInfo("run", 600.0), 120, PLAIN))


@pytest.mark.parametrize(
    ("states", "result"),
    [
        ((AlertState.SILENCED, AlertState.SILENCED), " ∅ SILENCED "),
        ((AlertState.ACKED,), " ● ACKED "),
        ((AlertState.ACKED, AlertState.FIRING), " ✗ CRIT "),
        ((AlertState.RESOLVED,), " ✗ CRIT "),
    ],
)
def test_the_verdict_shows_that_its_alerts_are_silenced(states: tuple[AlertState, ...], result: str) -> None:
    alerts = tuple(alert(at, state) for at, state in enumerate(states, 1))
    assert text(verdict_row(picture(*alerts), 140, PLAIN)).startswith(result)
    assert text(verdict_row(picture(*alerts), 60, PLAIN)).startswith(result[:3])


@pytest.mark.parametrize(
    ("state", "result"),
    [
        (RunState.LOADING, "searching for logs"),
        (RunState.LIVE, "waiting for the first log line"),
        (RunState.ENDED, "no log lines"),
        (RunState.PAUSED, "space plays"),
    ],
)
def test_where_no_log_speaks_yet_nothing_is_called_good(state: RunState, result: str) -> None:
    none = picture(sources=(), snapshot=None, state=state)
    assert result in text(verdict_row(none, 80, PLAIN))
    assert "✓" not in text(header_row(none, HeaderInfo("run", 600.0), 80, PLAIN))


def test_where_nothing_was_found_a_value_beyond_its_limits_is_told_first() -> None:
    fine = lane("rpc_ms", (1200.0,), now=1200.0, now_level=Level.GOOD)
    slow = lane("dur_ms", (54_000.0,), now=54_000.0, now_level=Level.CRITICAL)
    base = picture(snapshot=replace(healthy(), unseen=("no staleness",)))
    assert "not observed: staleness" in text(why_row(with_metrics(base, fine), 120, PLAIN))
    message = text(why_row(with_metrics(base, fine, slow), 120, PLAIN))
    assert message.index("✗ generation batch 54.0 s") < message.index("✓ load time 1.2 s")


@pytest.mark.parametrize(("width", "result"), [(160, "  as of 10 s ago"), (120, "  as of 10 s ago")])
def test_a_verdict_that_lags_behind_says_so(width: int, result: str) -> None:
    shown = replace(picture(snapshot=snapshot(findings=(finding(),))), unjudged_s=14.2)
    assert text(verdict_row(shown, width, PLAIN)).endswith(result)  # behind what is wrong, and its cost
    assert result.strip() not in text(verdict_row(replace(shown, unjudged_s=None), width, PLAIN))


def test_no_verdict_that_lags_behind_says_so_too() -> None:
    message = text(verdict_row(replace(picture(snapshot=healthy()), unjudged_s=5.0), 120, PLAIN))
    assert "HEALTHY" in message
    assert message.endswith("  as of 5 s ago")
    assert len(message) <= 120


def test_the_screen_goes_on_saying_that_it_failed() -> None:
    failed = Recording("run.pmrec", 10, 0.0, "run.pmrec: recording stopped: No space left on device")
    for width in (80, 120, 200):
        row = header_row(picture(recording=failed), HeaderInfo("run", 600.0), width, PLAIN)
        assert "REC failed" in "".join(text for text, _ in row)


def test_what_machines_tell_before_the_first_log_is_nothing_about_the_run() -> None:
    shown = picture(snapshot=healthy(), sources=(), seen=seen(START + 600.0, 1, [gpu(0, 0, 90.0)]))
    message = text(verdict_row(shown, 120, PLAIN))
    assert "LEARNING" in message
    assert "no log lines yet" in message
    assert "productive" not in text(ledger_row(shown, 120, PLAIN))
    assert "not observed" not in text(why_row(shown, 120, PLAIN))
    begun = replace(shown, sources=(source(),))
    assert "productive" in text(ledger_row(begun, 120, PLAIN))
    assert "HEALTHY" in text(verdict_row(begun, 120, PLAIN))


def test_an_engine_that_is_polled_without_any_log_is_learnt_of_and_then_healthy() -> None:
    engine = reading("a100-0", Area.QUEUE, "8000", kind="vllm", running=100, waiting=0, kv_usage_pct=55)
    shown = picture(snapshot=healthy(), sources=(), seen=seen(START + 600.0, 1, [engine]))
    assert "HEALTHY" in text(verdict_row(shown, 120, PLAIN))
    fresh = replace(shown, snapshot=replace(healthy(), metrics={}, assessment=Assessment.LEARNING))
    assert "LEARNING  No bottleneck found" in text(verdict_row(fresh, 120, PLAIN))


@pytest.mark.parametrize(
    ("lines_per_s", "result"), [(0.0, " 0 l/s"), (0.03, " 0 l/s"), (0.4, " 0.4 l/s"), (0.96, " 1 l/s"), (2.2, " 2 l/s")]
)
def test_few_lines_are_not_told_as_none(lines_per_s: float, result: str) -> None:
    row = header_row(replace(picture(), lines_per_s=lines_per_s), HeaderInfo("run", 600.0), 120, PLAIN)
    assert result in text(row)


def test_a_round_length_has_no_zeros() -> None:
    lengths = {60.0: "60 s", 0.75: "0.8 s", 600.0: "10m", 3600.0: "1h", 196.0: "3m 16s", 40.0: "40 s"}
    assert {seconds: short_duration(seconds) for seconds in lengths} == lengths


def test_a_view_is_paused_at_the_present_not_at_the_end_of_a_column() -> None:
    time_view = TimeNavigation()
    now = START + 594.0
    shown = replace(picture(), now=now, board=replace(picture().board, viewport=Viewport(START, START + 600.0, 75)))
    assert time_view.stands_at is None
    time_view.pause(shown)
    assert time_view.stands_at == now
    row = text(header_row(shown, HeaderInfo("run", 600.0, now, 1), 120, PLAIN))
    assert " L live +1 line " in row
    assert "(-" not in row
    time_view.end = START + 300.0
    assert time_view.stands_at == START + 300.0
    row = text(header_row(shown, HeaderInfo("run", 600.0, START + 300.0, 2), 120, PLAIN))
    assert "(-4m 54s)  L live +2 lines" in row
    time_view.cursor = START + 123.0
    assert time_view.stands_at == START + 123.0


@pytest.mark.parametrize(
    ("assessment", "summary", "wide", "narrow"),
    [
        (
            Assessment.UNREADABLE,
            "Cannot read these logs: 0 of 2 lines are recognised, and none reports progress. perfmon helps",
            "Cannot read these logs: 0 of 2 lines are recognised, and none reports progress",
            "Cannot read these logs: 0 of 2 lines are …",
        ),
        (
            Assessment.WATCH,
            "No bottleneck found: 20 steps, 4 checkpoint writes, 2 weight updates observed; no progress observed",
            "No bottleneck found: 20 steps, 4 checkpoint writes observed; no progress observed",
            "No bottleneck found; no progress observed",
        ),
    ],
)
def test_what_is_no_verdict_is_shortened_where_it_says_least(
    assessment: Assessment, summary: str, wide: str, narrow: str
) -> None:
    shown = picture(snapshot=replace(healthy(), summary=summary, assessment=assessment))
    badge = f" {PLAIN.mark(Level.WARNING)} {assessment.value.upper()}  "
    assert text(verdict_row(shown, 200, PLAIN)) == badge + summary
    assert text(verdict_row(shown, 101, PLAIN)) == badge + wide
    assert text(verdict_row(shown, 60, PLAIN)) == badge + narrow


CAUSE = (
    "trainer ended because GPU memory ran out on rank 3, GPU 3: tried to allocate 2.50 GiB, 1.31 GiB were free of "
    "79.10 GiB (_tensor.py:581 in backward); 2 follow-up error lines"
)


def died(sentence: str = CAUSE) -> MonitorState:
    """A run that failed, by a verdict with this sentence."""
    whole = snapshot(findings=(finding(sentence=sentence, advice=("Use less memory per step: a smaller batch.",)),))
    return picture(snapshot=replace(whole, run=replace(whole.run, state=Progress.FAILED)))


@pytest.mark.parametrize("width", [200, 120, 80, 60])
def test_the_cause_of_a_failure_continues_in_the_third_row_where_the_first_has_no_room(width: int) -> None:
    first, _, third = map(text, answer_rows(died(), width, 3, PLAIN))
    shown = first.partition("SATURATION  ")[2].rstrip().removesuffix(" …")
    assert CAUSE.startswith(shown)
    assert not shown[-1].isdigit()  # no figure without its unit
    if len(shown) < len(CAUSE):
        assert first.rstrip().endswith(" …")
        assert f"… {CAUSE[len(shown) :].lstrip(' ,;:(')[:5]}" in third
    assert "▸ Use less memory per step" in third
    assert all(cells(row) <= width for row in (first, third))


def test_a_run_that_stands_still_is_called_stalled_with_the_time_since_when() -> None:
    found = finding(signature="stall", title="Stall", sentence="no log output and no finished step for 36.9 s")
    whole = snapshot(findings=(found,))
    assert whole.verdict is not None
    run = replace(whole.run, state=Progress.STALLED, since=whole.run.end - 43.0)
    verdict = replace(whole.verdict, signature="stall", title="Stall")
    shown = replace(picture(snapshot=replace(whole, run=run, verdict=verdict)), now=whole.run.end)
    message = text(verdict_row(shown, 120, PLAIN))
    since = moment_text(whole.run.end - 43.0, TimeBase.WALL)
    assert f"STALLED for 43 s  no log output and no finished step since {since}" in message
    assert "STALLED for 43 s" in text(verdict_row(shown, 60, PLAIN))
    over = replace(shown, state=RunState.ENDED)
    assert "STALL  " in text(verdict_row(over, 120, PLAIN))


def test_a_verdict_names_the_rank_that_its_sentence_begins_with() -> None:
    found = finding(sentence="rank 19: slower than the others", identity={"rank": "19"})
    assert "SATURATION  rank 19  " in text(verdict_row(picture(snapshot=snapshot(findings=(found,))), 120, PLAIN))
    more = replace(found, sentence="rank 4: slower than the others", identity={"rank": "4"}, lost_s=1.0)
    both = picture(snapshot=snapshot(findings=(found, more)))
    assert "SATURATION  rank 19 and 1 more  " in text(verdict_row(both, 120, PLAIN))
    url = replace(found, sentence="slower than usual", identity={"url": "http://a:8000"})
    assert "http" not in text(verdict_row(picture(snapshot=snapshot(findings=(url,))), 120, PLAIN))


@pytest.mark.parametrize("width", [200, 80, 60])
def test_a_silent_run_has_a_next_step(width: int) -> None:
    silent = replace(picture(snapshot=healthy()), stale_s=98.0)
    assert "SILENT  no log output for 98.0 s" in text(verdict_row(silent, width, PLAIN))
    message = text(why_row(silent, width, PLAIN))
    assert message.startswith("  ▸ Does the process still run")
    assert cells(message) <= width


def test_advice_ends_at_a_clause_where_it_has_to_be_cut() -> None:
    found = finding(conditions=(), advice=("Use less memory: a smaller batch, or shorter sequences, or sharding.",))
    message = text(why_row(picture(snapshot=snapshot(findings=(found,))), 44, PLAIN))
    assert message.rstrip().endswith("Use less memory: a smaller batch …")


def test_a_pause_that_the_rhythm_does_not_allow_is_watched_whatever_other_logs_print() -> None:
    whole = healthy()
    pace = Pace(whole.run.end - 120.0, 2.0, 30.0, True)
    run = replace(whole.run, pace=pace)
    shown = replace(picture(snapshot=replace(whole, run=run)), now=whole.run.end)
    message = text(verdict_row(shown, 120, PLAIN))
    assert message == " ! WATCH  no step for 2m, usually every 2.0 s  although the logs continue"
    quiet = text(verdict_row(replace(shown, sources=(source(age_s=118.0),)), 120, PLAIN))
    assert quiet == " ! WATCH  no step for 2m, usually every 2.0 s  no output for 1m 50s"
    unknown = text(verdict_row(replace(shown, sources=(source(age_s=None),)), 120, PLAIN))
    assert unknown == " ! WATCH  no step for 2m, usually every 2.0 s"
    silent = replace(shown, sources=(source(freshness=Freshness.STALE, age_s=120.0), source(index=1)))
    assert "no output from orchestrator.log" in text(verdict_row(silent, 120, PLAIN))
    assert "▸ Does the process still run" in text(why_row(shown, 120, PLAIN))
    brief = replace(whole, run=replace(run, pace=replace(pace, last=whole.run.end - 40.0)))
    assert "✓ HEALTHY" in text(verdict_row(replace(shown, snapshot=brief), 120, PLAIN))


def test_a_graver_fault_is_the_headline_and_the_stall_after_it_stands_behind_it() -> None:
    stall = finding(signature="stall", title="Stall", sentence="no finished step for 36.9 s")
    whole = snapshot(findings=(finding(), stall))
    run = replace(whole.run, state=Progress.STALLED, since=whole.run.end - 43.0)
    shown = replace(picture(snapshot=replace(whole, run=run)), now=whole.run.end)
    message = text(verdict_row(shown, 160, PLAIN))
    assert "SATURATION" in message
    assert "also STALLED for 43 s" in message
    assert "also STALLED" not in text(verdict_row(replace(shown, state=RunState.ENDED), 160, PLAIN))


def test_a_server_without_requests_is_idle_and_needs_no_action() -> None:
    whole = healthy()
    run = replace(whole.run, pace=Pace(whole.run.end - 430.0, 10.0, 30.0, False), idle=whole.run.end - 420.0)
    metrics = {"running": metric("running", (0.0,) * 4, ""), "waiting": metric("waiting", (0.0,) * 4, "")}
    unused = replace(whole, run=run, metrics=metrics)
    shown = replace(picture(snapshot=unused), now=whole.run.end)
    message = text(verdict_row(shown, 80, PLAIN))
    assert message.startswith(" - IDLE  no requests running or waiting for 7m, since ")
    assert cells(message) <= 80
    assert "py-spy" not in text(why_row(shown, 120, PLAIN))
    assert without_alert(shown, unused).startswith("IDLE: no requests running or waiting for 7m, since ")
    long_quiet = replace(shown, stale_s=4000.0, actual=whole.run.end)
    assert "its last line reports no requests" in text(verdict_row(long_quiet, 120, PLAIN))
    assert "py-spy" not in text(why_row(long_quiet, 120, PLAIN))


def test_what_no_alert_explains_is_explained_with_its_limit() -> None:
    whole = healthy()
    late = replace(whole, run=replace(whole.run, pace=Pace(whole.run.end - 120.0, 2.0, 30.0, True)))
    shown = replace(picture(snapshot=late), now=whole.run.end)
    assert without_alert(shown, late) == (
        "WATCH: no step for 2m, usually every 2.0 s (limit 45.0 s, by its own rhythm), although the logs continue; "
        "no rule proves a stall"
    )
    assert without_alert(replace(shown, stale_s=98.0), late).startswith("SILENT: no log output for 98.0 s")
    assert without_alert(picture(snapshot=whole), whole) == "HEALTHY, no alerts: No bottleneck found."


def test_a_part_of_the_history_has_no_verdict() -> None:
    shown = replace(picture(snapshot=snapshot(findings=(finding(),))), state=RunState.LOADING, progress=0.41)
    rows = [text(row) for row in answer_rows(shown, 120, 4, PLAIN)]
    assert "reading history: 41 %" in rows[0]
    assert "lost" not in rows[0]
    assert [row.strip() for row in rows[2:]] == ["", ""]
    assert "lost" in text(verdict_row(replace(shown, state=RunState.LIVE, progress=None), 120, PLAIN))


@pytest.mark.parametrize(
    ("assessment", "early", "result"),
    [
        (Assessment.HEALTHY, False, "FINISHED  300 of 300 steps in 10m 01s: no bottleneck found"),
        (Assessment.LEARNING, False, "FINISHED  300 of 300 steps: too few lines to judge its pace"),
        (Assessment.HEALTHY, True, "ENDED EARLY  300 of 300 steps in 10m 01s: no bottleneck found"),
    ],
)
def test_a_run_that_is_over_says_what_it_made(assessment: Assessment, early: bool, result: str) -> None:
    base = replace(healthy(), assessment=assessment)
    run = replace(base.run, state=Progress.FINISHED, goal=Goal(300.0, 300.0, "step", 0.0, early=early))
    assert result in text(verdict_row(picture(snapshot=replace(base, run=run)), 120, PLAIN))


def test_a_silent_server_is_idle_or_hung_and_says_what_proves_which() -> None:
    base = picture(snapshot=healthy())
    run = replace(healthy().run, unused=base.now - 1260.0)
    shown = replace(base, snapshot=replace(healthy(), run=run))
    assert "IDLE?  idle or hung for 21m: no output since " in text(verdict_row(shown, 120, PLAIN))
    assert "curl http://HOST:PORT/health" in text(why_row(shown, 120, PLAIN))
    assert "idle or hung for 21m" in without_alert(shown, replace(healthy(), run=run))


def test_an_evaluation_is_shown_with_its_progress() -> None:
    run = replace(healthy().run, phase=Phase("evaluating", 540.0, 1000.0))
    shown = picture(snapshot=replace(healthy(), run=run))
    assert "evaluating 540 of 1,000" in text(answer_rows(shown, 120, 4, PLAIN)[1])
    silent = replace(shown, stale_s=70.0)
    assert "evaluating 540 of 1,000, no output for 1m" in text(answer_rows(silent, 120, 4, PLAIN)[1]).replace(
        "60 s", "1m"
    )


def test_a_state_without_an_alert_has_a_page() -> None:
    whole = healthy()
    pace = Pace(whole.run.end - 120.0, 2.0, 30.0, True)
    shown = replace(picture(snapshot=whole), now=whole.run.end)
    over = replace(whole, run=replace(whole.run, state=Progress.FINISHED, since=whole.run.end - 60.0))
    idle = replace(whole, run=replace(whole.run, idle=whole.run.end - 420.0))
    states = {
        "judged, up to the last line": (shown, whole),
        "the last line was ": (replace(shown, stale_s=98.0), whole),
        "the last progress was ": (shown, replace(whole, run=replace(whole.run, pace=pace))),
        "the end was ": (shown, over),
        "the last request was ": (shown, idle),
        "the last line was 2": (shown, replace(whole, run=replace(whole.run, unused=whole.run.end - 1260.0))),
    }
    last = (EvidenceLine("trainer.log", 7, HOSTILE),)
    for since, (made, found) in states.items():
        entries = state_page(replace(made, snapshot=found), found, last, SKIN, 100)
        lines = ["".join(words for words, _ in styled(entry.words, SKIN, "background")) for entry in entries]
        page = "\n".join(lines)
        assert since in page
        assert all(f"── {head} " in page for head in ("WHAT IS KNOWN", "WHAT WOULD PROVE IT", "WHAT TO DO"))
        assert max(map(cells, lines)) <= 100
        assert "\x1b" not in page
        assert any(entry.evidence is not None for entry in entries)
        assert any(entry.command for entry in entries)


@pytest.mark.parametrize("width", range(110, 190, 5))
def test_what_it_costs_takes_no_room_from_hosts(width: int) -> None:
    shown = replace(picture(snapshot=snapshot()), links=LINKS)
    without, costs = HeaderInfo("run", 600.0), HeaderInfo("run", 600.0, cpu_percent=1.6, rss_bytes=61 << 20)
    rows = [text(header_row(shown, info, width, PLAIN)).split(" l/s")[0] for info in (without, costs)]
    assert rows[0] == rows[1]
    assert cells(text(header_row(shown, costs, width, PLAIN))) <= width


def test_a_sentence_is_shortened_where_the_first_row_has_room_for_a_part_of_it() -> None:
    sentence = "5 of 118 generation batches took 41.2 s (at most 51.8 s) while a weight update waited in the queue"
    whole = snapshot(findings=(finding(sentence=sentence),))
    message = text(verdict_row(picture(alert(), snapshot=whole), 160, PLAIN)).rstrip()
    assert "5 of 118 generation batches took" in message
    assert message.endswith(" …")
    assert not re.search(r"\d …$", message), "no figure without its unit"
    assert "5 of 118" not in text(verdict_row(picture(alert(), snapshot=whole), 80, PLAIN))


def test_an_exception_is_named_before_where_it_came_from() -> None:
    sentence = "trainer ended by an uncaught exception: ZeroDivisionError: float division by zero (trainer.py:129)"
    whole = snapshot(findings=(finding(sentence=sentence, signature="frontend-queue"),))
    assert whole.verdict is not None
    verdict = replace(whole.verdict, title="Run failed")
    whole = replace(whole, run=replace(whole.run, state=Progress.FAILED), verdict=verdict)
    for width in (60, 80, 100):
        first = text(verdict_row(picture(alert(), snapshot=whole), width, PLAIN))
        assert "trainer: ZeroDivisionError" in first, first
    assert sentence in text(verdict_row(picture(alert(), snapshot=whole), 200, PLAIN))


@pytest.mark.parametrize(("width", "words"), [(60, "10m 01s to last line"), (120, "10m 01s until the last line")])
def test_the_bar_of_a_silent_run_ends_at_its_last_line(width: int, words: str) -> None:
    silent = replace(picture(), actual=picture().now + 3600.0)
    assert text(ledger_row(silent, width, PLAIN)).startswith(f" {words} ")
