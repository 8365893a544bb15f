"""However logs arrive, their lines are merged, filtered, forgotten and counted in the same way."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from logs import Filler, stamped

from perfmon.logbuffer.lines import EVERYTHING, Filter, LogLevel, level_of
from perfmon.logbuffer.reader import Page, View

WORDS = ("INFO start", "WARNING slow Queue", "ERROR queue full", "DEBUG x=1", "[weights][abc] rpc.done", "ünïcode")


@st.composite
def run(draw: st.DrawFn) -> list[list[bytes]]:
    """Up to three logs; no two lines of the run were printed in the same millisecond, some have no date."""
    logs: list[list[bytes]] = [[] for _ in range(draw(st.integers(1, 3)))]
    ms = 0
    for _ in range(draw(st.integers(0, 200))):
        ms += draw(st.sampled_from((1, 7, 900, 4000)))
        log = draw(st.integers(0, len(logs) - 1))
        text = draw(st.sampled_from(WORDS))
        logs[log].append(stamped(ms, text) if draw(st.integers(0, 4)) or not logs[log] else b"  " + text.encode())
    return logs


def fill(filler: Filler, logs: list[list[bytes]], cuts: st.DataObject) -> None:
    """Appends the logs, cut anyhow, a block of any log after the other."""
    left = {source: list(lines) for source, lines in enumerate(logs) if lines}
    while left:
        source = cuts.draw(st.sampled_from(sorted(left)))
        size = cuts.draw(st.integers(1, 80))
        filler.add(source, left[source][:size])
        left[source] = left[source][size:]
        if not left[source]:
            del left[source]


def result_of(page: Page) -> list[tuple[int, str]]:
    return [(line.source, line.text) for line in page.lines]


def merged(logs: list[list[bytes]]) -> list[tuple[int, str]]:
    """What the merged view has to be: lines by time, those without one after the line before them."""
    lines = []
    for source, log in enumerate(logs):
        when = ""
        for at, line in enumerate(log):
            text = line.decode()
            when = text[:23] if text[0] != " " else when
            lines.append((when, source, at, text))
    return [(source, text) for _, source, _, text in sorted(lines)]


def whole(view: View) -> list[tuple[int, str]]:
    return result_of(view.tail(10_000, budget_s=60.0))


@settings(max_examples=60, deadline=None)
@given(run(), st.data())
def test_the_merged_view_does_not_depend_on_how_the_logs_were_cut(logs: list[list[bytes]], cuts: st.DataObject) -> None:
    filler = Filler()
    fill(filler, logs, cuts)
    assert whole(View(filler.book)) == merged(logs)


@settings(max_examples=60, deadline=None)
@given(run(), st.data(), st.integers(1, 30))
def test_forward_and_backward_give_the_same_lines(logs: list[list[bytes]], cuts: st.DataObject, rows: int) -> None:
    filler = Filler()
    fill(filler, logs, cuts)
    view = View(filler.book)
    back = view.tail(rows)
    lines = list(back.lines)
    while lines and (back := view.before(lines[0].place, rows)).lines:
        lines[:0] = back.lines
    assert [(line.source, line.text) for line in lines] == merged(logs)
    for here, after in pairwise(lines):
        assert view.after(here.place, 1).lines == (after,)
        assert view.before(after.place, 1).lines == (here,)
    assert result_of(view.head(rows)) == merged(logs)[:rows]
    assert [view.fraction(line.place) for line in lines] == [at / len(lines) for at in range(len(lines))]


@settings(max_examples=60, deadline=None)
@given(
    run(),
    st.data(),
    st.sampled_from(LogLevel),
    st.sampled_from(("", "abc", "ab")),
    st.sampled_from(("", "queue", "Queue", "/queue|x=\\d/", "/^\\s/", "Ünïcode", "ünï")),
    st.sets(st.integers(0, 2)),
)
def test_a_filter_gives_the_lines_that_grep_gives(
    logs: list[list[bytes]], cuts: st.DataObject, level: LogLevel, trace: str, text: str, sources: set[int]
) -> None:
    filler = Filler()
    fill(filler, logs, cuts)
    wanted = Filter(frozenset(sources) or None, level, trace, (text,))
    found = whole(View(filler.book, wanted))

    def fits(source: int, line: str) -> bool:
        if (sources and source not in sources) or level_of(line) < level or (trace and f"[{trace}]" not in line):
            return False
        if text == "/queue|x=\\d/":
            return "queue" in line.lower() or "x=1" in line
        return line[0] == " " if text == "/^\\s/" else text in (line if text != text.lower() else line.lower())

    assert found == [item for item in merged(logs) if fits(*item)]


@settings(max_examples=60, deadline=None)
@given(run(), st.data(), st.integers(1000, 20_000))
def test_the_ring_forgets_the_oldest_and_counts(logs: list[list[bytes]], cuts: st.DataObject, budget: int) -> None:
    filler = Filler(budget)
    fill(filler, logs, cuts)
    book = filler.book
    view = View(book)
    everything = view.tail(10_000)
    for source, lines in enumerate(logs):
        held = [line.text for line in everything.lines if line.source == source]
        totals = book.totals(source)
        assert held == [line.decode() for line in lines[len(lines) - len(held) :]]
        assert (totals.lines, totals.lost_lines) == (len(lines), len(lines) - len(held))
        assert totals.bytes == sum(len(line) + 1 for line in lines)
        assert totals.bytes - totals.lost_bytes == sum(len(line) + 1 for line in lines[len(lines) - len(held) :])
    costs = {id(chunk): chunk.cost for held in book.chunks()[1].values() for chunk in held}
    assert sum(costs.values()) <= budget or len(costs) == 1


def test_everything_is_what_no_filter_gives() -> None:
    filler = Filler()
    filler.add(0, [stamped(1, "a")])
    assert result_of(View(filler.book, EVERYTHING).tail(5)) == result_of(View(filler.book).tail(5))
