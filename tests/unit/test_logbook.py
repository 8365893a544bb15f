"""The log book: times of odd logs, numbers, hostile lines, searches that would take forever."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from logs import Filler, packs, stamped
from rich.cells import cell_len

from perfmon.core.errors import InputError, UsageError
from perfmon.core.model import Block
from perfmon.logbuffer.buffer import LogBuffer, Totals
from perfmon.logbuffer.lines import EVERYTHING, TEXT_CAP, Filter, Line, LogLevel, Query, level_of, searchable
from perfmon.logbuffer.reader import View, read_back
from perfmon.sources.clock import SourceClock


def texts(filler: Filler, wanted: Filter = EVERYTHING) -> list[str]:
    """All lines without their stamps."""
    return [line.text.rpartition("Z ")[2] for line in lines(filler, wanted)]


def lines(filler: Filler, wanted: Filter = EVERYTHING) -> tuple[Line, ...]:
    return View(filler.book, wanted).tail(10_000, budget_s=60.0).lines


def message_of(second: int, text: str) -> bytes:
    return f"2026-08-21T10:{second // 60:02d}:{second % 60:02d}Z {text}".encode()


# --- the order --------------------------------------------------------------------------------------------------
def test_lines_of_the_same_second_stand_as_they_arrived() -> None:
    filler = Filler()
    for at, source in enumerate((1, 0, 0, 2, 1, 0)):
        filler.add(source, [message_of(5, f"{at}")])
    assert texts(filler) == ["0", "1", "2", "3", "4", "5"]


def test_of_many_logs_only_those_with_the_newest_lines_are_looked_into() -> None:
    filler = Filler()
    for source in range(200):
        filler.add(source, [message_of(source, "begin"), message_of(1000 + source, f"end {source}")])
    view = View(filler.book)
    assert [line.text[-7:] for line in view.tail(5).lines] == [f"end {source}" for source in range(195, 200)]
    assert len(view._indexes) <= 6


def test_the_last_line_of_a_key_is_hidden_also_where_another_log_is_between() -> None:
    filler = Filler()
    filler.add(
        0, [message_of(5, "MIIEpAIBAAKCAQEA0Z3VS5JJcds3xfn/ygWyF8PbnGy0AHB7MaGvV3pPSyXo9kAQ"), message_of(7, "Ab3/q==")]
    )
    filler.add(1, [message_of(6, "between")])
    assert texts(filler) == ["***", "between", "***"]


def test_a_line_out_of_order_stays_where_its_log_has_it() -> None:
    filler = Filler()
    filler.add(0, [message_of(5, "a"), message_of(9, "early"), message_of(7, "b")])
    filler.add(1, [message_of(6, "x"), message_of(8, "y")])
    assert texts(filler) == ["a", "x", "early", "b", "y"]


def test_colours_do_not_hide_when_a_line_was_printed() -> None:
    filler = Filler()
    filler.add(0, [b"\x1b[2m" + message_of(5, "a"), b"\x1b[2m" + message_of(9, "c")])
    filler.add(1, [message_of(7, "b")])
    assert texts(filler) == ["a", "b", "c"]


def test_the_present_remains_the_present_when_a_clock_goes_back() -> None:
    filler = Filler()
    filler.add(1, [message_of(100, "other")])
    filler.add(0, [message_of(3000, "before the clock was set")])
    filler.add(0, [message_of(200, "after")])
    filler.add(1, [message_of(201, "newest")])
    assert texts(filler) == ["other", "before the clock was set", "after", "newest"]


def test_a_log_without_a_clock_stands_where_it_arrived() -> None:
    filler = Filler()
    filler.add(0, [b"loading"])
    filler.add(1, [message_of(10, "one")])
    filler.add(0, [b"epoch 1"])
    filler.add(1, [message_of(20, "two")])
    filler.add(0, [b"epoch 2"])
    assert texts(filler) == ["loading", "one", "epoch 1", "two", "epoch 2"]
    assert [line.dated for line in lines(filler)] == [False, True, False, True, False]


def test_what_a_log_says_before_its_first_date_stands_right_before_that() -> None:
    filler = Filler()
    filler.add(0, [b"banner"])
    filler.add(1, [message_of(10, "one"), message_of(30, "three")])
    filler.add(0, [b"welcome", message_of(20, "two")])
    assert texts(filler) == ["one", "banner", "welcome", "two", "three"]


def test_a_live_log_that_prints_no_dates_any_more_stands_in_the_present() -> None:
    filler = Filler()
    filler.add(0, [message_of(1, "start")], live=True)
    for second in range(10, 40, 10):
        filler.add(1, [message_of(second, f"other {second}")], live=True)
        filler.add(0, [f"step {second}".encode()], live=True)
    filler.add(0, [message_of(35, "dated again")], live=True)
    filler.add(1, [message_of(50, "last")], live=True)
    assert texts(filler) == [
        "start", "other 10", "step 10", "other 20", "step 20", "other 30", "step 30", "dated again", "last",
    ]  # fmt: skip


def test_times_without_a_date_pass_midnight() -> None:
    filler = Filler()
    filler.add(0, [b"23:59:58    INFO a", b"23:59:59    INFO b"])
    filler.add(0, [b"00:00:01    INFO c"])
    found = lines(filler)
    assert [line.text[-1] for line in found] == ["a", "b", "c"]
    assert [(line.time or 0.0) - (found[0].time or 0.0) for line in found] == [0.0, 1.0, 3.0]


def test_monotonic_times_are_laid_over_those_of_other_logs() -> None:
    filler, clock = Filler(), SourceClock()
    filler.add(1, [message_of(0, "first"), message_of(10, "last")])
    begin = lines(filler)[0].time or 0.0
    clock.resolve(None, 1245.0)
    data = b"[weights][ab] client.send t=1240.0\n[weights][ab] rpc.start t=1245.0\n"
    filler.book.append(0, "server", Block(data, 0, 1), clock)
    filler.book.align({0: begin - 1237.0})
    assert [(line.time or 0.0) - begin for line in lines(filler)] == [0.0, 3.0, 8.0, 10.0]
    assert [line.trace for line in lines(filler)] == ["", "ab", "ab", ""]


def test_times_told_before_the_first_date_move_with_it() -> None:
    filler, clock = Filler(), SourceClock()
    clock.resolve(None, 1240.0)
    filler.book.append(0, "a", Block(b"one t=1235.0\ntwo t=1240.0\n", 0, 1), clock)
    clock.resolve((0, 1795168233.0), 1250.0)
    clock.at((0, 1795168233.0), 1250.0)
    filler.book.append(0, "a", Block(b"2026-11-20T09:50:33Z three t=1250.0\n", 26, 3), clock)
    assert [(line.time or 0.0) - 1795168233.0 for line in lines(filler)] == [-15.0, -10.0, 0.0]


def test_a_moment_is_found() -> None:
    filler = Filler()
    filler.add(0, [message_of(second, f"{second}") for second in range(0, 600, 2)])
    begin = lines(filler)[0].time or 0.0
    found = View(filler.book).at(begin + 301.0, 2).lines
    assert [line.text[21:] for line in found] == ["302", "304"]


# --- numbers and counts -----------------------------------------------------------------------------------------
def test_numbers_begin_anew_after_a_rotation_and_the_newest_wins() -> None:
    filler = Filler()
    filler.add(0, [message_of(1, "old 1"), message_of(2, "old 2")])
    filler.anew(0)
    filler.add(0, [message_of(3, "new 1"), message_of(4, "new 2")])
    view = View(filler.book)
    place = view.find("log0.log", 2)
    line = view.line(place) if place is not None else None
    assert line is not None
    assert (line.number, line.text[21:]) == (2, "new 2")
    old = view.find("log0.log", 2, "2026-08-21T10:00:02Z old 2")
    assert old is not None
    assert old.ordinal == 1
    assert view.find("log0.log", 3) is None
    assert view.find("log0.log", 2, "2026-08-21T10:00:02Z no such line") is None
    assert view.find("other.log", 1) is None


def test_a_frame_that_was_released_early_keeps_the_number_of_its_line() -> None:
    book, clock = LogBuffer(packs=packs()), SourceClock()
    for data, line in ((b"10%\n", 1), (b"20%\n", 1), (b"30% done\n", 1), (b"next\n", 2)):
        book.append(0, "bar", Block(data, 0, line), clock)
    assert [(line.number, line.text) for line in View(book).tail(9).lines] == [
        (1, "10%"), (1, "20%"), (1, "30% done"), (2, "next"),
    ]  # fmt: skip


def test_of_the_frames_of_a_long_line_the_last_one_is_shown() -> None:
    book, frames = (
        LogBuffer(packs=packs()),
        "".join(f"\rEpoch {n // 100}: {n % 100:3d}%|{'#' * 40}| {n}/900" for n in range(900)),
    )
    for text in ("first\n", f"{frames}\r\n", "next\n"):
        book.append(0, "bar", Block(text.encode(), 0, 1), SourceClock())
    assert [line.text for line in View(book).tail(9).lines] == ["first", f"Epoch 8:  99%|{'#' * 40}| 899/900", "next"]


def test_large_blocks_are_cut_and_nothing_is_lost() -> None:
    filler = Filler()
    count = 40_000
    filler.add(0, [stamped(at, f"line {at} " + "x" * 60) for at in range(count)])
    held = filler.book.chunks()[1][0]
    assert len(held) > 4
    assert max(len(chunk.data) for chunk in held) <= 1 << 18
    view = View(filler.book)
    for number in (1, 9_999, count):
        place = view.find("log0.log", number)
        line = None if place is None else view.line(place)
        assert line is not None
        assert f" line {number - 1} " in line.text
    assert filler.book.totals() == Totals(count, sum(len(chunk.data) for chunk in held))


def test_what_is_forgotten_is_counted_and_its_place_leads_to_the_oldest_line() -> None:
    filler = Filler(200_000)
    view = View(filler.book)
    filler.add(0, [stamped(0, "first")])
    place = view.tail(1).lines[0].place
    for at in range(1, 100):
        filler.add(0, [stamped(at, "x" * 5000)])
    totals = filler.book.totals()
    held = view.tail(10_000).lines
    assert totals.lines == 100
    assert totals.lost_lines == 100 - len(held) > 0
    assert view.line(place) is None
    assert view.before(place, 5).lines == ()
    assert view.start(place, 1).lines == held[:1]


def test_a_history_that_is_passed_over_is_counted_and_numbers_go_on() -> None:
    book, clock = LogBuffer(packs=packs()), SourceClock()
    book.skipped(0, "a", 2, 8)
    assert not book.keeps(0)
    book.append(0, "a", Block(b"three\n", 8, 3), clock)
    assert book.keeps(0)
    assert [(line.number, line.text) for line in View(book).tail(5).lines] == [(3, "three")]
    assert book.totals(0) == Totals(3, 14, 2, 8)
    assert View(book).find("a", 2) is None


def test_an_unfinished_last_line_counts_and_is_shown() -> None:
    book = LogBuffer(packs=packs())
    book.append(0, "a", Block(b"whole\nunfinish", 0, 1, final=True), SourceClock())
    assert [line.text for line in View(book).tail(5).lines] == ["whole", "unfinish"]
    assert book.totals() == Totals(2, 14)


def test_another_reading_begins_with_nothing() -> None:
    filler = Filler()
    filler.add(0, [message_of(1, "old")])
    view = View(filler.book)
    assert view.tail(5).lines
    filler.book.clear()
    assert view.tail(5).lines == ()
    filler.anew(0)
    filler.add(0, [message_of(1, "new")])
    assert [line.text[21:] for line in view.tail(5).lines] == ["new"]


def test_one_thread_fills_while_another_one_reads() -> None:
    filler, problems = Filler(300_000), []
    stop = threading.Event()

    def read() -> None:
        view = View(filler.book)
        try:
            while not stop.is_set():
                numbers = [line.number for line in view.tail(40).lines]
                assert numbers == sorted(numbers)
        except Exception as error:
            problems.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    for at in range(400):
        filler.add(0, [stamped(40 * at + ms, "x" * 300) for ms in range(40)])
    stop.set()
    thread.join()
    assert problems == []


# --- what a line says -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"[/x] [bold red]no[/] [weights][a]", "[/x] [bold red]no[/] [weights][a]"),
        (b"\x1b[2J\x1b[31mred\x1b[0m", "red"),
        (b"\x1b]52;c;aGVsbG8=\x07copied", "copied"),
        (b"\x1b]0;title\x1b\\kept", "kept"),
        (b"\x1b]8;;http://x no end", ""),
        (b"a\x00b\x08c\x7f", "abc"),
        ("bidi \u202eabc\u202c zero\u200bwidth\ufeff \u0085x\u009b2J".encode(), "bidi abc zerowidth x2J"),
        (b"\xff\xfe ok", "\ufffd\ufffd ok"),
        (b" 10%|#\r 20%|##\r 30%|###", " 30%|###"),
        (b" 10%|#\r 20%|##\r\r", " 20%|##"),
        (b"crlf\r", "crlf"),
        (b"a\tb", "a    b"),
        ("日本語 e\u0301".encode(), "日本語 e\u0301"),
        (("z" + "\u0301" * 50).encode(), "z" + "\u0301" * 3),
        ("ok\ufe0f\u00ad".encode(), "ok"),
        (b"api_key=sk-abcdefghijklmnopqrstuvwx", "api_key=***"),
    ],
)
def test_hostile_text_is_shown_harmless(raw: bytes, shown: str) -> None:
    book = LogBuffer(packs=packs())
    book.append(0, "a", Block(b"before\n" + raw + b"\nafter\n", 0, 1), SourceClock())
    assert [line.text for line in View(book).tail(5).lines] == ["before", shown, "after"]


def test_a_line_of_a_megabyte_is_cut_before_anybody_looks() -> None:
    book = LogBuffer(packs=packs())
    book.append(0, "a", Block(b"x" * (1 << 20) + b"needle\nshort needle\n", 0, 1), SourceClock())
    first, second = View(book).tail(5).lines
    assert len(first.text) == TEXT_CAP
    assert first.text.endswith("…")
    assert cell_len(second.text) == 12
    assert [line.text for line in View(book, Filter(texts=("needle",))).tail(5).lines] == ["short needle"]


def test_what_is_searched_has_a_line_for_every_line() -> None:
    data = b"a\x1b]0;no end\nb\x1b[1m\r\nc\rd\n\xff\x1b]x\ny\n"
    assert searchable(data).split("\n") == ["a", "b", "d", "\ufffd", "y", ""]


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("2026-08-21 10:00:00 | ERROR | x:f:1 - boom", LogLevel.ERROR),
        ("WARNING 08-21 10:00:00 engine.py:1] slow", LogLevel.WARNING),
        ("INFO retry after ERROR", LogLevel.INFO),
        ("time=x level=warn msg=y", LogLevel.WARNING),
        ('{"level": "error"}', LogLevel.ERROR),
        ("[rank0]: [debug] x", LogLevel.DEBUG),
        ("F0821 10:00:00.1 1 x.cc:1] died", LogLevel.CRITICAL),
        ("Traceback (most recent call last):", LogLevel.ERROR),
        ("torch.cuda.OutOfMemoryError: CUDA out of memory", LogLevel.ERROR),
        ("0 errors, no warnings, INFORMATION", LogLevel.UNKNOWN),
        ("x" * 300 + " ERROR", LogLevel.UNKNOWN),
    ],
)
def test_levels(text: str, level: LogLevel) -> None:
    assert level_of(text) == level


# --- searching --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("query", ["/(/", "/a{2,1}/", "/*/", "/[/", "/(?P<x>a)(?P<x>b)/", "/" + "(" * 5000 + "/"])
def test_a_wrong_expression_is_told_in_one_line(query: str) -> None:
    with pytest.raises(UsageError, match="is not a valid regular expression") as result:
        View(LogBuffer(packs=packs()), Filter(texts=(query,)))
    assert "\n" not in str(result.value)
    assert len(str(result.value)) < 200


@pytest.mark.parametrize(
    ("query", "line", "spans"),
    [
        ("queue", "a Queue, a queue", [(2, 7), (11, 16)]),
        ("Queue", "a Queue, a queue", [(2, 7)]),
        ("[gen]", "x [gen] y", [(2, 7)]),
        ("/x=\\d+/", "x=12 x=", [(0, 4)]),
        ("/x=\\D/", "X=a", [(0, 3)]),
        ("/", "a/b", [(1, 2)]),
        ("/^a|b*/", "abc", [(0, 1), (1, 2)]),
    ],
)
def test_queries_find_where(query: str, line: str, spans: list[tuple[int, int]]) -> None:
    assert Query(query).spans(line) == spans
    assert Query(query).matches(line)


def test_an_expression_that_would_take_for_ever_is_given_up() -> None:
    filler = Filler()
    filler.add(0, [stamped(0, "a" * 1000 + "!")])
    view = View(filler.book, Filter(texts=("/(a+)+$/",)))
    for _ in range(2):
        with pytest.raises(UsageError, match="takes too long"):
            view.tail(5)
    assert Query("/(a+)+$/").spans("a" * 1000 + "!") == []


def test_a_search_stops_when_its_time_is_up_and_goes_on_where_it_was() -> None:
    filler = Filler()
    for begin in range(0, 20_000, 1000):
        filler.add(0, [stamped(at, f"x {at} " + "y" * 50) for at in range(begin, begin + 1000)])
    view = View(filler.book, Filter(texts=("/x 7 /",)))
    calls = 1
    while not (page := view.tail(5, budget_s=0.0)).complete:
        assert page.lines == ()
        calls += 1
    assert [line.number for line in page.lines] == [8]
    assert calls > 10
    filler.add(0, [stamped(30_000, "x 7 again")])
    assert [line.number for line in view.tail(5).lines] == [8, 20_001]


def test_lines_that_do_not_fit_are_counted_when_there_was_time_for_it() -> None:
    filler = Filler()
    filler.add(0, [stamped(0, "x 7 first"), *(stamped(at, f"x {at} " + "y" * 50) for at in range(10, 20_000))])
    wanted = Filter(texts=("/x 7 /",))
    (line,) = View(filler.book, wanted).tail(5, budget_s=60.0).lines
    fresh = View(filler.book, wanted)
    assert not fresh.tail(1, budget_s=0.0).complete
    counts = [fresh.folded(line.place, budget_s=0.0) for _ in range(1000)]
    assert counts[0] == 0
    assert counts[-1] > 1000


# --- reading back -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("number", "around", "first", "count"), [(1, 2, 1, 3), (500_000, 3, 499_997, 7), (1, 0, 1, 1)])
def test_a_piece_is_read_back(tmp_path: Path, number: int, around: int, first: int, count: int) -> None:
    path = tmp_path / "big.log"
    path.write_bytes(b"".join(b"line %d\n" % at for at in range(1, 500_101)))
    block = read_back(path, number, around)
    numbers = range(first, first + count)
    assert block.data == b"".join(b"line %d\n" % at for at in numbers)
    assert block.line == first
    assert block.offset == sum(len(b"line %d\n" % at) for at in range(1, first))


def test_what_cannot_be_read_back_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"1\n2\n3")
    assert read_back(path, 3).data == b"1\n2\n3\n"
    with pytest.raises(InputError, match="line 4 no longer exists"):
        read_back(path, 4)
    with pytest.raises(InputError, match="No such file"):
        read_back(tmp_path / "gone.log", 1)
