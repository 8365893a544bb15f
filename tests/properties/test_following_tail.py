"""A view that follows, and has read again and again while the logs grew, shows what one shows that has just begun."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from logs import Filler, stamped

from perfmon.logbuffer.lines import Filter, Line, LogLevel, Place
from perfmon.logbuffer.reader import View

FILTERS = (Filter(), Filter(level=LogLevel.WARNING), Filter(texts=("slow",)), Filter(sources=frozenset({1})))
TEXTS = ("INFO start", "WARNING slow queue", "ERROR full", "DEBUG slow x=1")


@st.composite
def blocks(draw: st.DrawFn) -> list[tuple[int, list[bytes], bool]]:
    """What comes of three logs, a block of any log after the other: late lines, undated ones, logs cut anyhow."""
    come: list[tuple[int, list[bytes], bool]] = []
    ms = 60_000
    for _ in range(draw(st.integers(1, 25))):
        lines: list[bytes] = []
        for _ in range(draw(st.integers(1, 40))):
            ms += draw(st.sampled_from((0, 1, 7, 900)))
            late = draw(st.sampled_from((0, 0, 0, 0, 3, 1500, 50_000)))
            text = f"{draw(st.sampled_from(TEXTS))} {len(come)}.{len(lines)}"
            undated = draw(st.integers(0, 5)) == 0
            lines.append(b"  " + text.encode() if undated else stamped(max(0, ms - late), text))
        come.append((draw(st.integers(0, 2)), lines, draw(st.booleans())))
    return come


def shown(lines: tuple[Line, ...]) -> list[tuple[Place, str, float | None]]:
    """What can be seen of lines: one without a date shows no time."""
    return [(line.place, line.text, line.time if line.dated else None) for line in lines]


def tail(view: View, rows: int) -> list[tuple[Place, str, float | None]]:
    return shown(view.tail(rows, budget_s=60.0).lines)


@settings(max_examples=40, deadline=None)
@given(blocks(), st.sampled_from(FILTERS), st.integers(1, 60), st.sampled_from((4000, 20_000, 1 << 20)))
def test_what_is_followed_is_what_is_read_anew(
    come: list[tuple[int, list[bytes], bool]], wanted: Filter, rows: int, budget: int
) -> None:
    filler = Filler(budget)
    following = View(filler.book, wanted)
    for source, lines, live in come:
        filler.add(source, lines, live=live)
        seen = tail(following, rows)
        assert seen == tail(View(filler.book, wanted), rows)
        assert seen == tail(View(filler.book, wanted), 10_000)[-rows:]


@settings(max_examples=25, deadline=None)
@given(blocks(), st.integers(1, 12))
def test_no_line_is_shown_twice_or_passed_over_on_the_way_back(
    come: list[tuple[int, list[bytes], bool]], rows: int
) -> None:
    filler = Filler()
    view = View(filler.book)
    for source, lines, live in come:
        filler.add(source, lines, live=live)
        tail(view, rows)
    whole = [line.place for line in View(filler.book).tail(10_000, budget_s=60.0).lines]
    back = [line.place for line in view.tail(rows, budget_s=60.0).lines]
    while more := view.before(back[0], rows, budget_s=60.0).lines:
        back[:0] = [line.place for line in more]
    assert back == whole
    on = [line.place for line in view.head(rows, budget_s=60.0).lines]
    while more := view.after(on[-1], rows, budget_s=60.0).lines:
        on += [line.place for line in more]
    assert on == whole
    for log in range(3):
        ordinals = [place.ordinal for place in whole if place.source == log]
        assert ordinals == sorted(ordinals)
