"""A replay gives what a straight play gives, however it is steered; nothing waits for a real clock here."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmon.core.model import Block, Notice
from perfmon.recording.format import open_recording
from perfmon.recording.writer import RecordingWriter
from perfmon.sources.blocks import TimedItem, together
from perfmon.sources.replay import Player, PlayerItem, Rewound, Timeline, timeline_of

END = 100.0


@dataclass
class Clock:
    """Time that passes only while somebody sleeps."""

    now: float = 50.0
    slept: list[float] = field(default_factory=list)

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)
        self.now += seconds


def lines(times: list[float], log: str = "a.log") -> list[TimedItem]:
    """A line of ten bytes at each of the times."""
    return [(at, log, Block(b"%9d\n" % number, 10 * number, number + 1)) for number, at in enumerate(times)]


def player(items: list[TimedItem], clock: Clock, duration_s: float = END, **options: object) -> Player:
    timeline = Timeline(Path("run.pmrec"), 0.0, duration_s, lambda: iter(items))
    return Player(timeline, clock=clock, sleep=clock.sleep, **options)  # type: ignore[arg-type]


@dataclass
class Screen:
    """What has been handed over since the beginning, or since the last `Rewound`."""

    texts: dict[str, bytes] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)
    rewinds: int = 0

    def take(self, item: PlayerItem) -> None:
        if isinstance(item, Rewound):
            self.texts, self.notices, self.rewinds = {}, [], self.rewinds + 1
        elif isinstance(item[1], Notice):
            self.notices.append(item[1].text)
        else:
            log, block = item[0].name, item[1]
            assert block.offset == len(self.texts.get(log, b""))
            assert block.line == self.texts.get(log, b"").count(b"\n") + 1
            self.texts[log] = self.texts.get(log, b"") + block.data


async def play(player: Player, at_item: Callable[[Player, Screen], None] = lambda *_: None) -> Screen:
    screen = Screen()
    async for item in player:
        screen.take(item)
        at_item(player, screen)
    return screen


class Viewer(Screen):
    """Plays bit by bit."""

    def __init__(self, player: Player) -> None:
        super().__init__()
        self._stream = aiter(player)
        self.coming: asyncio.Future[PlayerItem] | None = None

    async def until(self, done: Callable[[], bool]) -> None:
        """Takes items, letting the player wait, until `done`."""
        for _ in range(10_000):
            if done():
                return
            self.coming = self.coming or asyncio.ensure_future(anext(self._stream))
            await asyncio.sleep(0)
            if self.coming.done():
                self.take(self.coming.result())
                self.coming = None
        raise AssertionError("it never came to that")

    async def close(self) -> None:
        """Lets go of the player."""
        if self.coming:
            self.coming.cancel()
            await asyncio.gather(self.coming, return_exceptions=True)


@pytest.mark.parametrize(
    ("speed", "slept"), [(1.0, 100.0), (0.5, 200.0), (1000.0, 0.1), (5000.0, 0.1), (math.inf, 0.0)]
)
async def test_everything_comes_at_its_time(speed: float, slept: float) -> None:
    clock, times = Clock(), [0.0, 2.5, 2.5, 40.0, 99.0]
    seen: list[tuple[float, float]] = []
    screen = await play(player(lines(times), clock, speed=speed), lambda p, _: seen.append((clock.now, p.position_s)))
    assert screen.texts["a.log"] == b"".join(b"%9d\n" % number for number in range(5))
    assert sum(clock.slept) == pytest.approx(slept, abs=0.03)
    if speed <= 1:
        assert [now - 50 for now, _ in seen] == pytest.approx([0, 2.5 / speed, 40 / speed, 99 / speed], abs=0.03)


async def test_it_does_not_drift() -> None:
    clock = Clock()
    screen = await play(player(lines([at / 10 for at in range(20_000)]), clock, duration_s=2000.0, speed=100.0))
    assert len(screen.texts["a.log"]) == 200_000
    assert clock.now - 50 == pytest.approx(20, abs=0.03)
    assert len(clock.slept) < 20 / 0.02 + 10


@dataclass(frozen=True)
class Step:
    """A thing that a user does after so many items."""

    after: int
    what: str
    value: float


STEPS = st.lists(
    st.builds(Step, st.integers(1, 6), st.sampled_from(["seek", "speed"]), st.floats(0.1, END)), max_size=6
)
TIMES = st.lists(st.floats(0, END), min_size=1, max_size=25).map(sorted)


@settings(deadline=None)
@given(TIMES, TIMES, STEPS)
def test_seeking_back_and_forth_ends_with_what_a_straight_play_gives(
    first: list[float], second: list[float], steps: list[Step]
) -> None:
    items = sorted([*lines(first), *lines(second, "b.log")], key=lambda item: item[0])
    items.insert(len(items) // 2, (items[len(items) // 2][0], "a.log", Notice("rotated", "rotated")))
    left, count = list(steps), 0

    def steer(player: Player, _: Screen) -> None:
        nonlocal count
        count += 1
        if left and count >= left[0].after:
            step, count = left.pop(0), 0
            if step.what == "seek":
                player.seek(step.value)
            else:
                player.speed = step.value

    straight = asyncio.run(play(player(items, Clock())))
    steered = asyncio.run(play(player(items, Clock()), steer))
    assert (steered.texts, steered.notices) == (straight.texts, straight.notices)


async def test_a_seek_back_begins_anew_and_gives_all_up_to_there_at_once() -> None:
    clock = Clock()
    one = player(lines([10.0, 20.0, 30.0, 40.0]), clock)
    screen = Viewer(one)
    await screen.until(lambda: len(screen.texts.get("a.log", b"")) == 30)
    now, slept = clock.now, len(clock.slept)
    one.seek(20.0)
    await screen.until(lambda: screen.rewinds == 1 and not one.seeking)
    assert (len(screen.texts["a.log"]), one.position_s, clock.now, len(clock.slept)) == (20, 20.0, now, slept)
    await screen.until(lambda: len(screen.texts["a.log"]) == 30)
    assert clock.now - now == pytest.approx(10.0, abs=0.03)
    await screen.close()


async def test_a_pause_hands_nothing_over_and_time_stands_still() -> None:
    clock = Clock()
    one = player(lines([float(at) for at in range(50)]), clock)
    screen = Viewer(one)
    await screen.until(lambda: len(screen.texts.get("a.log", b"")) == 100)
    one.pause()
    position, clock.now = one.position_s, clock.now + 1000
    with pytest.raises(AssertionError, match="never"):
        await screen.until(lambda: len(screen.texts["a.log"]) > 100)
    assert (one.position_s, one.paused) == (position, True)
    one.resume()
    await screen.until(lambda: len(screen.texts["a.log"]) > 100)
    assert one.position_s - position <= 1.0 + 1e-9
    assert len(screen.texts["a.log"]) == 110
    await screen.close()


async def test_steps_go_on_by_seconds_or_by_moments_and_pause() -> None:
    clock = Clock()
    one = player(lines([0.0, 5.0, 5.0, 9.0, 20.0]), clock, paused=True, linger=True)
    screen = Viewer(one)
    for seconds, position, count in ((None, 0.0, 1), (None, 5.0, 3), (3.0, 8.0, 3), (2.0, 10.0, 4), (None, 20.0, 5)):
        one.step(seconds)
        await screen.until(lambda: not one.seeking)
        assert (one.position_s, len(screen.texts["a.log"]) // 10, one.paused) == (position, count, True)
    one.step(1000.0)
    await screen.until(lambda: one.ended)
    assert one.position_s == one.duration_s == END
    assert sum(clock.slept) < 1
    await screen.close()


async def test_at_the_end_it_lingers_for_a_seek() -> None:
    clock = Clock()
    one = player(lines([1.0, 2.0]), clock, speed=math.inf, linger=True)
    screen = Viewer(one)
    await screen.until(lambda: one.ended)
    one.pause()
    one.seek(1.5)
    await screen.until(lambda: screen.rewinds == 1 and not one.seeking)
    assert (one.position_s, screen.texts["a.log"], one.ended) == (1.5, b"%9d\n" % 0, False)
    await screen.close()


async def test_it_is_steered_from_another_thread() -> None:
    one = Player(Timeline(Path("x"), 0.0, 1e6, lambda: iter(lines([5e5, 1e6]))), linger=False)
    thread = threading.Timer(0.01, one.seek, (1e6,))
    thread.start()
    async with asyncio.timeout(20):
        screen = await play(one)
    thread.join()
    assert len(screen.texts["a.log"]) == 20


async def test_what_adjoins_comes_as_one_block() -> None:
    (item,) = [item async for item in player(lines([0.5] * 30), Clock())]
    assert not isinstance(item, Rewound)
    log, block = item
    assert (log.name, log.path, log.member) == ("a.log", Path("run.pmrec"), "a.log")
    assert block == Block(b"".join(b"%9d\n" % number for number in range(30)), 0, 1)


def test_what_does_not_adjoin_stays_apart_and_in_order() -> None:
    a, b = lines([0.0, 1.0, 2.0, 3.0]), lines([0.5, 2.5], "b.log")
    notice: TimedItem = (2.0, "a.log", Notice("rotated", "rotated"))
    unfinished: TimedItem = (4.0, "b.log", Block(b"x", 20, 3, final=True))
    again: TimedItem = (5.0, "b.log", Block(b"y\n", 21, 3))
    assert list(together([a[0], b[0], a[1], notice, a[2], b[1], a[3], unfinished, again])) == [
        (0.0, "a.log", Block(b"%9d\n%9d\n" % (0, 1), 0, 1)),
        (0.5, "b.log", Block(b"%9d\n%9d\nx" % (0, 1), 0, 1, final=True)),
        notice,
        (2.0, "a.log", Block(b"%9d\n%9d\n" % (2, 3), 20, 3)),
        again,
    ]
    assert len(list(together([a[0], a[2]]))) == 2


def test_blocks_without_line_numbers_and_parts_of_lines() -> None:
    parts: list[TimedItem] = [(0.0, "a", Block(b"x\n", 0, 0)), (0.0, "a", Block(b"y\n", 2, 0))]
    assert list(together(parts)) == [(0.0, "a", Block(b"x\ny\n", 0, 0))]
    frames: list[TimedItem] = [(0.0, "a", Block(b"10%\n", 0, 7)), (0.0, "a", Block(b"20%\n", 4, 7))]
    assert list(together(frames)) == frames


@pytest.mark.parametrize("speed", [0.0, -1.0, math.nan])
def test_what_is_no_speed_is_refused(speed: float) -> None:
    with pytest.raises(ValueError, match="no speed"):
        player([], Clock(), speed=speed)


async def test_a_recording_is_played(tmp_path: Path) -> None:
    items = lines([0.0, 1.0, 2.0])
    with RecordingWriter(tmp_path / "run.pmrec", ["a.log"], start=7.0) as writer:
        for item in items:
            writer.write(*item)
    timeline = timeline_of(open_recording(tmp_path / "run.pmrec"))
    assert (timeline.start, timeline.duration_s, list(timeline.items())) == (7.0, 2.0, items)
    screen = await play(Player(timeline, speed=math.inf))
    assert len(screen.texts["a.log"]) == 30
