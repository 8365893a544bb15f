"""Numbers as characters."""

from __future__ import annotations

import re
from math import inf, isnan, nan

import pytest

from perfmon.textgraphics.cells import ASCII, compact, compact_bytes, compact_seconds, compact_value, cut, fit
from perfmon.textgraphics.charts import Leg, Tick, axis, bar, bucket, gantt, limits, spark, stack, ticks


def drawn(legs: list[Leg], width: int = 20, still_open: bool = False) -> str:
    return "".join(glyph for glyph, _ in gantt(legs, 0.0, 20.0, width, still_open=still_open))


# --- sparklines -------------------------------------------------------------------------------------------------------
def test_a_gap_is_a_space_and_zero_is_not() -> None:
    assert spark([0.0, nan, 7.9, 8.0], 0.0, 8.0) == "▁ ██"


def test_up_to_the_critical_limit_a_sparkline_is_linear() -> None:
    assert spark([0, 2500, 4999, 5000], 0, 4000, critical=5000) == "▁▅██"


def test_limits_and_values_may_be_as_far_apart_as_numbers_can() -> None:
    assert spark([1e104, 1e-204], 0.0, 1e104, critical=7.5e-205) == "█▅"


def test_beyond_the_critical_limit_a_sparkline_is_logarithmic() -> None:
    assert spark([20, 900, 1000, 1100, 10_000, 100_000], 0, 100_000, critical=1000) == "▁▄▄▅▇█"


@pytest.mark.parametrize(("low", "high"), [(5.0, 5.0), (5.0, 4.0), (nan, 5.0), (0.0, inf), (5.0, 5.0 + 1e-12)])
def test_without_room_a_sparkline_tells_what_there_is_from_nothing(low: float, high: float) -> None:
    assert spark([5.0, 5.0, nan, 0.0], low, high) == "▄▄ ▁"


def test_a_critical_limit_that_is_none_is_passed_over() -> None:
    assert [spark([0, 4, 8], 0, 8, critical=limit) for limit in (nan, inf, -1.0, 0.0)] == ["▁▅█"] * 4


def test_a_plain_sparkline() -> None:
    assert spark([0, 4, 8, nan], 0, 8, glyphs=ASCII) == "_=# "


@pytest.mark.parametrize(
    ("values", "unit", "scale"),
    [
        ([3.0, 9.0, nan], "ms", (0.0, 9.0)),
        ([-3.0, 9.0], "", (-3.0, 9.0)),
        ([97.0, 97.1], "%", (0.0, 100.0)),
        ([1000.0, 1010.0], "ms", (1000.0, 1000.0)),
        ([nan, inf], "ms", (0.0, 0.0)),
        ([], "ms", (0.0, 0.0)),
    ],
)
def test_scales(values: list[float], unit: str, scale: tuple[float, float]) -> None:
    assert limits(values, unit) == scale


def test_buckets_keep_the_worst_and_leave_gaps() -> None:
    samples = [(9.9, 9.0), (0.0, 1.0), (2.0, 5.0), (2.4, 7.0), (1.0, nan), (10.0, 99.0), (-1.0, 99.0)]
    values = bucket(samples, 0.0, 10.0, 4)
    assert values[0] == 7.0
    assert values[3] == 9.0
    assert isnan(values[1])
    assert bucket(samples, 0.0, 10.0, 4, min)[0] == 1.0


@pytest.mark.parametrize(("start", "end", "columns"), [(0.0, 10.0, 0), (0.0, 10.0, -3), (5.0, 5.0, 2), (9.0, nan, 2)])
def test_buckets_of_nothing(start: float, end: float, columns: int) -> None:
    values = bucket([(5.0, 1.0)], start, end, columns)
    assert len(values) == max(0, columns)
    assert all(map(isnan, values))


# --- bars and shares --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("share", "cells"),
    [(0.0, "    "), (0.5, "██  "), (0.53, "██▏ "), (1.0, "████"), (7.0, "████"), (-1.0, "    "), (nan, "    ")],
)
def test_bars(share: float, cells: str) -> None:
    assert bar(share, 4) == cells
    assert len(bar(share, 4, ASCII)) == 4


@pytest.mark.parametrize(
    ("shares", "width", "cells"),
    [
        ([0.71, 0.16, 0.01, 0.03, 0.09], 60, [43, 9, 1, 2, 5]),
        ([0.06, 0.06, 0.06, 0.82], 10, [1, 1, 1, 7]),
        ([0.04, 0.96], 10, [0, 10]),
        ([1, 1, 1], 8, [3, 3, 2]),
        ([1, 1, 1, 1], 2, [1, 1, 0, 0]),
        ([2.0, nan, -1.0, inf, 2.0], 4, [2, 0, 0, 0, 2]),
        ([0.0, nan], 5, [0, 0]),
        ([1e308, 1e308], 4, [2, 2]),
        ([1.0], -2, [0]),
        ([], 9, []),
    ],
)
def test_shares_of_a_width(shares: list[float], width: int, cells: list[int]) -> None:
    assert stack(shares, width) == cells


# --- spans ------------------------------------------------------------------------------------------------------------
def test_an_update_shows_its_legs() -> None:
    legs = [Leg("queue", 3.0, 9.0), Leg("rpc", 9.0, 11.0), Leg("done", 11.0, 11.5)]
    assert drawn(legs) == "   ○░░░░░██●        "
    kinds = [kind for _, kind in gantt(legs, 0.0, 20.0, 20)]
    assert kinds[3:12] == ["send", *["queue"] * 5, "rpc", "rpc", "done"]
    assert kinds[0] == ""


def test_what_nobody_can_explain_is_not_drawn_as_a_queue() -> None:
    assert drawn([Leg("unknown", 3.0, 9.0), Leg("rpc", 9.0, 11.0)]).strip() == "○▒▒▒▒▒██"


@pytest.mark.parametrize("begin", [0.0, 0.2, 0.5, 0.8])
@pytest.mark.parametrize("done_s", [0.0, 0.01])
def test_after_its_wait_an_update_shows_its_rpc_wherever_columns_begin(begin: float, done_s: float) -> None:
    wait, rpc = begin + 2.4, begin + 2.65
    legs = [Leg("queue", begin, wait), Leg("rpc", wait, rpc), Leg("done", rpc, rpc + done_s)]
    assert re.fullmatch("○░+█ *", drawn(legs))


def test_of_two_cells_a_short_rpc_is_not_half() -> None:
    assert drawn([Leg("queue", 3.2, 4.5), Leg("rpc", 4.5, 4.6), Leg("done", 4.6, 4.6)]).strip() == "░●"


def test_an_update_that_has_ended_shows_it() -> None:
    legs = [Leg("queue", 0.0, 6.0), Leg("rpc", 6.0, 9.0), Leg("done", 9.0, 9.0)]
    assert drawn(legs).strip() == "○░░░░░██●"


def test_an_open_update_goes_on() -> None:
    assert drawn([Leg("queue", 15.0, 20.0)], still_open=True) == " " * 15 + "○░░░▸"


def test_a_narrow_update_shows_what_it_spent_most_on() -> None:
    legs = [Leg("queue", 3.1, 3.2), Leg("rpc", 3.2, 3.8), Leg("done", 3.8, 3.9)]
    assert drawn(legs).strip() == "█"
    assert drawn(legs, 4).strip() == "█"
    assert drawn([Leg("queue", 3.0, 3.9), Leg("rpc", 3.9, 4.5), Leg("done", 4.5, 4.6)]).strip() == "░█"


def test_what_lies_outside_is_cut_off_without_its_marks() -> None:
    legs = [Leg("queue", -9.0, 2.0), Leg("rpc", 2.0, 99.0), Leg("done", 99.0, 99.5)]
    assert drawn(legs) == "░░" + "█" * 18
    assert drawn([Leg("queue", 40.0, 50.0)]).strip() == ""


@pytest.mark.parametrize("leg", [Leg("rpc", nan, 5.0), Leg("rpc", 2.0, inf), Leg("rpc", 5.0, 2.0)])
def test_a_leg_without_times_is_left_out(leg: Leg) -> None:
    assert drawn([leg]).strip() == ""


def test_other_kinds_are_full_bars() -> None:
    assert drawn([Leg("checkpoint-write", 2.0, 4.0)]).strip() == "██"


# --- axes -------------------------------------------------------------------------------------------------------------
def labels(start: float, end: float, width: int, origin: float | None = None) -> list[str]:
    return [tick.label for tick in ticks(start, end, width, origin=origin)]


def test_offsets_get_round_names_as_close_as_there_is_room() -> None:
    assert labels(-600, 0, 128, 0.0) == [*(f"-{n}m" for n in range(10, 0, -1)), "now"]
    assert labels(-600, 0, 40, 0.0) == ["-10m", "-8m", "-6m", "-4m", "-2m", "now"]
    assert labels(-21600, 0, 60, 0.0) == ["-6h", "-5h", "-4h", "-3h", "-2h", "-1h", "now"]
    assert labels(-180, 180, 60, 0.0) == ["-3m", "-2m", "-1m", "now", "+1m", "+2m", "+3m"]
    assert labels(-90, 0, 30, 0.0) == ["-1m30s", "-1m", "-30s", "now"]
    assert labels(0, 0.02, 60, 0.0) == ["now", "+5ms", "+10ms", "+15ms", "+20ms"]


def test_times_of_day() -> None:
    noon = 1_700_049_600.0
    assert labels(noon, noon + 600, 60) == ["12:00", "12:02", "12:04", "12:06", "12:08", "12:10"]
    assert labels(noon, noon + 30, 48) == ["12:00:00", "12:00:10", "12:00:20", "12:00:30"]
    assert labels(noon, noon + 0.2, 60)[1] == "12:00:00.050"
    assert labels(noon, noon + 4 * 86400, 40) == ["16 Nov", "17 Nov", "18 Nov", "19 Nov"]


def test_ticks_stand_at_their_columns() -> None:
    assert ticks(0, 50, 100, origin=0.0, zero="0", plus="")[:2] == [Tick(0, "0"), Tick(10, "5s")]


def test_an_axis_never_lacks_its_newest_label() -> None:
    assert axis([Tick(0, "-2m"), Tick(8, "-1m"), Tick(11, "now")], 12) == "-2m      now"
    assert axis([Tick(0, "-10m")], 3) == "   "
    assert axis([], -1) == ""


@pytest.mark.parametrize(("start", "end"), [(0, 0), (5, 1), (nan, 1), (0, inf), (-inf, inf), (1e300, 2e300)])
def test_an_axis_of_no_time_has_no_ticks(start: float, end: float) -> None:
    assert [tick for tick in ticks(start, end, 40) if tick.label] == []


# --- words and numbers ------------------------------------------------------------------------------------------------
def test_text_is_cut_by_cells() -> None:
    assert [cut("hello", cells) for cells in (5, 3, 1, 0, -1)] == ["hello", "he…", "…", "", ""]
    assert cut("日本語", 6) == "日本語"
    assert cut("日本語", 5) == "日本…"
    assert fit("日本語", 4) == "日 …"
    assert fit("ab", 4, right=True) == "  ab"
    assert fit("日", 4, right=True) == "  日"
    assert fit("a\x1b[2J\u202eb[/x]", 8) == "ab[/x]  "
    assert cut("hello", 3, ASCII) == "he~"


@pytest.mark.parametrize(
    ("value", "cells", "text"),
    [
        (0.0, 5, "0"),
        (0.523, 5, "0.52"),
        (0.0012, 6, "0.0012"),
        (0.0012, 5, "1e-3"),
        (3e-7, 5, "3e-7"),
        (12.04, 4, "12.0"),
        (12.04, 3, "12"),
        (140, 5, "140"),
        (9999, 5, "9999"),
        (11_200, 5, "11.2k"),
        (30_333, 3, "30k"),
        (999_950, 5, "1.00M"),
        (1e21, 5, "1e21"),
        (-11_200, 5, "-11k"),
        (-0.00001, 4, "0.00"),
        (140, 2, "##"),
        (nan, 5, "-"),
        (inf, 5, "inf"),
    ],
)
def test_compact_numbers(value: float, cells: int, text: str) -> None:
    assert compact(value, cells) == text


@pytest.mark.parametrize(
    ("seconds", "cells", "text"),
    [
        (0.087, 6, "87 ms"),
        (30.3, 6, "30.3 s"),
        (30.3, 5, "30.3s"),
        (30.3, 3, "30s"),
        (200, 6, "3m 20s"),
        (200, 5, "3m20s"),
        (200, 4, "3m"),
        (97200, 6, "1d 3h"),
        (0.2, 2, "0s"),
        (-200, 7, "-3m 20s"),
        (nan, 6, "-"),
    ],
)
def test_compact_durations(seconds: float, cells: int, text: str) -> None:
    assert compact_seconds(seconds, cells) == text


def test_compact_values() -> None:
    assert compact_value(30333, "ms") == "30.3 s"
    assert compact_value(93.25, "%", 5) == "93.2%"
    assert [compact_value(count, "steps") for count in (1.0, 2.0)] == ["1 step", "2 steps"]
    assert compact_value(93.25, "%", 3) == "93%"
    assert [compact_value(2310.9, "tokens/s", cells) for cells in (14, 12, 8, 5)] == [
        "2311 tokens/s",
        "2311 tok/s",
        "2311/s",
        "2311",
    ]
    assert compact_value(412, "MB/s", 7) == "412"  # megabytes are not told by a bare /s
    assert compact_value(12, "steps", 8) == "12 steps"
    assert compact_value(12, "steps", 7) == "12"
    assert [compact_bytes(1434, cells) for cells in (8, 6, 4, 2)] == ["1.4 KiB", "1.4KiB", "1.4K", "1K"]
