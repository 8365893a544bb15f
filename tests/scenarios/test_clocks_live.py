"""A run that is watched while clocks are odd: logs of several zones, a clock that is set back, one wrong time."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from perfmon.core.config import Config
from perfmon.core.model import Block
from perfmon.demo.output import demo_timeline
from perfmon.logbuffer.buffer import LogBuffer
from perfmon.monitor.worker import Watch
from perfmon.sources.discovery import LogFile
from perfmon.viewmodel import Alert, AlertState, MonitorState, TimeRange

pytestmark = pytest.mark.slow

BEGIN = datetime(2026, 8, 21, 10, 0, tzinfo=UTC)
OPENED_S, CHANGED_S, UNTIL_S, STEP_S = 600.0, 900.0, 1500.0, 10.0
CLOCK = re.compile(r"(?<=pid=412\) INFO )\d\d-\d\d \d\d:\d\d:\d\d|\d\d:\d\d:\d\d")
Line = tuple[float, str, str]
TimeText = Callable[[str, float], str]


def at(hours: float, seconds: float) -> str:
    """What a clock says that is so many hours ahead of UTC."""
    return f"{BEGIN + timedelta(seconds=seconds, hours=hours):%Y-%m-%d %H:%M:%S}"


def at_utc(seconds: float) -> str:
    """The same, for a clock that says that it tells UTC."""
    return f"{BEGIN + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"


def lines_of(
    scenario: str, time_text: TimeText, logs: tuple[str, ...] = ("orchestrator.log", "trainer.log")
) -> list[Line]:
    """Lines of a run with their clocks as `told` says, and the seconds at which they arrive."""
    lines = []
    for at_s, log, block in demo_timeline(scenario, 0, 40.0, BEGIN.replace(tzinfo=None)).items():
        if log in logs and isinstance(block, Block):
            lines.append((at_s, log, CLOCK.sub(time_text(log, at_s), block.data.decode(), 1)))
    return lines


class Logs:
    """A feed whose clock goes when it is told to."""

    player = None
    hosts = ()
    collectives = None
    specs: tuple[str, ...] = ()
    behind = 0

    def __init__(self) -> None:
        self.now, self.caught_up = 0.0, False
        self.written: dict[str, float] = {}

    @property
    def of_past(self) -> bool:
        return not self.caught_up

    def clock(self) -> float:
        return BEGIN.timestamp() + self.now

    def changed_at(self, log: LogFile) -> float | None:
        return self.written.get(log.name)


def watched(lines: list[Line]) -> Iterator[MonitorState]:
    """What is published of a run that is opened after ten minutes."""
    feed, ends = Logs(), dict[str, tuple[int, int]]()
    watch = Watch(feed, Config(), 600.0, LogBuffer(), deque(), feed.clock)  # type: ignore[arg-type]
    left = deque(sorted(lines, key=lambda line: line[0]))
    for tick in range(int((UNTIL_S - OPENED_S) / STEP_S)):
        feed.now = OPENED_S + tick * STEP_S
        while left and left[0][0] <= feed.now:
            at_s, log, text = left.popleft()
            offset, line = ends.get(log, (0, 1))
            data = text.encode()
            watch.take(LogFile(log, Path("/logs") / log), Block(data, offset, line))
            ends[log] = (offset + len(data), line + 1)
            if not tick:
                feed.written[log] = BEGIN.timestamp() + at_s
                if len(left) % 50 == 0:  # pictures are made while the history is being read
                    watch.judge_if_due(feed.clock())
                    watch.picture(TimeRange(), 0)
        feed.caught_up = True
        watch.judge_if_due(feed.clock())
        yield watch.picture(TimeRange(), tick)


def verdicts(pictures: list[MonitorState], after_s: float = 0.0) -> set[str | None]:
    """Signatures of the verdicts from so long after the screen has opened."""
    kept = [picture.snapshot for picture in pictures[1 + int(after_s / STEP_S) :]]
    return {snapshot.verdict.signature if snapshot.verdict else None for snapshot in kept if snapshot}


def alert(picture: MonitorState, signature: str) -> Alert:
    """The alert of that signature."""
    (found,) = [one for one in picture.alerts if one.key[0] == signature]
    return found


@pytest.mark.parametrize("zone", [8, -8])
def test_a_log_of_another_zone_may_come_later(zone: int) -> None:
    lines = lines_of("frontend-queue", lambda log, s: at(zone, s) if log == "orchestrator.log" else at_utc(s))
    late = [(max(at_s, CHANGED_S) if log == "trainer.log" else at_s, log, text) for at_s, log, text in lines]
    pictures, usual = list(watched(late)), list(watched([line for line in late if line[1] == "orchestrator.log"]))
    assert verdicts(pictures) == {"frontend-queue"}
    late_alert, same = alert(pictures[-1], "frontend-queue"), alert(usual[-1], "frontend-queue")
    assert (late_alert.count, late_alert.lost_s) == pytest.approx((same.count, same.lost_s), rel=0.05)
    assert pictures[-1].now - late_alert.since == pytest.approx(usual[-1].now - same.since, abs=2.0)


def test_a_date_may_come_later_than_the_time_of_day() -> None:
    forms = {"orchestrator.log": "%H:%M:%S", "inference.log": "%m-%d %H:%M:%S"}

    def lines(*logs: str) -> list[Line]:
        return lines_of("frontend-queue", lambda log, s: f"{BEGIN + timedelta(seconds=s):{forms[log]}}", logs)

    late = [(max(at_s, CHANGED_S), log, text) for at_s, log, text in lines("inference.log")]
    usual, pictures = list(watched(lines("orchestrator.log"))), list(watched([*lines("orchestrator.log"), *late]))
    one, same = alert(pictures[-1], "frontend-queue"), alert(usual[-1], "frontend-queue")
    assert (one.count, one.lost_s) == pytest.approx((same.count, same.lost_s), rel=0.05)


def test_clocks_that_are_set_back_are_no_stall() -> None:
    lines = lines_of("frontend-queue", lambda _, s: at(2.0 if s < CHANGED_S else 1.0, s))
    pictures = list(watched(lines))
    assert verdicts(pictures) == {"frontend-queue"}
    assert not [one.key for one in pictures[-1].alerts if one.key[0] == "stall"]


def test_one_line_with_a_wrong_time_is_soon_forgotten() -> None:
    lines = lines_of("frontend-queue", lambda _, s: at(2.0, s))
    odd = next(n for n, line in enumerate(lines) if line[0] > CHANGED_S and line[1] == "orchestrator.log")
    at_s, log, text = lines[odd]
    lines[odd] = (at_s, log, text.replace(at(2.0, at_s), at(12.0, at_s)))
    assert verdicts(list(watched(lines)), CHANGED_S - OPENED_S + 60.0) == {"frontend-queue"}


def test_a_wrong_time_in_the_history_is_no_present() -> None:
    lines = lines_of("frontend-queue", lambda _, s: at(2.0, s))
    at_s, log, text = lines[200]
    lines[200] = (at_s, log, text.replace(at(2.0, at_s), at(12.0, at_s)))
    assert verdicts(list(watched(lines))) == {"frontend-queue"}


def test_a_log_that_falls_silent_leaves_its_alerts_unknown() -> None:
    lines = lines_of("frontend-queue", lambda _, s: at(0.0, s))
    lines = [line for line in lines if line[1] != "orchestrator.log" or line[0] < CHANGED_S - 200.0]
    states = [alert(picture, "frontend-queue").state for picture in list(watched(lines))[1:]]
    assert states[0] is AlertState.FIRING
    assert states[-1] is AlertState.UNKNOWN
    assert AlertState.RESOLVED not in states


@pytest.mark.parametrize("step", [3600.0, 300.0, -3600.0])
@pytest.mark.parametrize("logs", [("orchestrator.log",), ("trainer.log",), ("orchestrator.log", "trainer.log")])
def test_a_clock_that_is_set_is_no_silence(logs: tuple[str, ...], step: float) -> None:
    def time_text(log: str, s: float) -> str:
        return at(2.0, s + (step if log in logs and s >= CHANGED_S else 0.0))

    lines, usual = lines_of("frontend-queue", time_text), lines_of("frontend-queue", lambda _, s: at(2.0, s))
    pictures, same = list(watched(lines)), list(watched(usual))
    assert verdicts(pictures) == {"frontend-queue"}
    assert {one.key[0] for picture in pictures for one in picture.alerts} == {"frontend-queue"}
    mine, theirs = alert(pictures[-1], "frontend-queue"), alert(same[-1], "frontend-queue")
    assert (mine.count, mine.lost_s) == pytest.approx((theirs.count, theirs.lost_s), rel=0.05)
    if step > 0 or len(logs) == 1:
        assert pictures[-1].now - mine.since == pytest.approx(same[-1].now - theirs.since, abs=STEP_S)
    snapshot = pictures[-1].snapshot
    assert snapshot is not None
    assert snapshot.skew_detected


def test_a_log_that_begins_after_the_clocks_were_set_lies_with_the_others() -> None:
    def time_text(_: str, s: float) -> str:
        return at(2.0, s + (3600.0 if s >= CHANGED_S else 0.0))

    late = [line for line in lines_of("frontend-queue", time_text) if line[1] == "orchestrator.log" or line[0] > 1100.0]
    pictures = list(watched(late))
    assert verdicts(pictures) == {"frontend-queue"}
    assert {one.key[0] for picture in pictures for one in picture.alerts} == {"frontend-queue"}
    first, second = pictures[-1].sources
    assert first.last == pytest.approx(second.last, abs=30.0)


@pytest.mark.parametrize("dated", [False, True])
def test_yesterdays_run_without_dates_is_not_laid_over_todays(dated: bool) -> None:
    def time_text(_: str, s: float) -> str:
        return f"{BEGIN + timedelta(seconds=s):%H:%M:%S}"

    day = 86400.0
    before = [
        (s - day, f"old-{log}", text) for s, log, text in lines_of("slow-checkpoint-write", time_text) if s < UNTIL_S
    ]
    usual = lines_of("healthy", (lambda _, s: at(0.0, s)) if dated else time_text)
    for picture in watched([*before, *usual]):
        assert not picture.alerts
        assert picture.snapshot is None or picture.snapshot.verdict is None
    first, second, *_ = sorted(picture.sources, key=lambda source: source.last or 0.0)
    assert first.name.startswith("old-")
    assert second.name.startswith("old-")
    assert picture.now - (second.last or 0.0) == pytest.approx(day, abs=60.0)


def test_lines_of_two_clocks_by_turns_do_not_keep_the_run_from_being_judged() -> None:
    mixed = lines_of("frontend-queue", lambda log, s: at(2.0 if s < CHANGED_S or int(s) % 3 else 4.0, s))
    pictures = list(watched(mixed))
    judged = [picture.snapshot.run.end for picture in pictures if picture.snapshot is not None]
    assert len(set(judged[-30:])) > 20
