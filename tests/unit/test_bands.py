"""Bands: what is at a limit is a warning; a user's file replaces limits one by one."""

from __future__ import annotations

from math import inf, isnan, nan, nextafter
from pathlib import Path

import pytest

from perfmon.core.errors import DataFileError
from perfmon.rules.bands import Band, load_bands

BANDS = load_bands()


@pytest.mark.parametrize(
    ("metric", "levels"),
    [
        ("queue_ms", {99.9: 0, 100: 1, 1000: 1, 1000.1: 2}),
        ("rpc_ms", {1999: 0, 2000: 1, 5000: 1, 5001: 2}),
        ("rpc_ms.reload_weights", {499: 0, 500: 1, 2000: 1, 2001: 2}),
        ("write_ms", {999: 0, 1000: 1, 5000: 1, 5001: 2}),
        ("wait_ms", {499: 0, 500: 1, 2000: 1, 2001: 2}),
        ("dur_ms", {4999: 0, 5000: 1, 10000: 1, 10001: 2}),
        ("trunc_pct", {9.9: 0, 10: 1, 30: 1, 30.1: 2}),
        ("kv_usage", {79: 0, 80: 1, 90: 1, 91: 2}),
        ("data_share", {4: 0, 5: 1, 20: 1, 21: 2}),
        ("queue_empty_share", {19: 0, 20: 1, 50: 1, 51: 2}),
        ("queue_fill", {81: 0, 80: 1, 30: 1, 29: 2}),
        ("gpu_busy", {96: 0, 95: 1, 50: 1, 49: 2}),
    ],
)
def test_the_limits_themselves_are_warnings(metric: str, levels: dict[float, int]) -> None:
    assert {value: BANDS.level(metric, value) for value in levels} == levels


def test_staleness_is_judged_by_the_async_level_which_is_still_good() -> None:
    bands = BANDS.with_async_level(4)
    assert [bands.level("staleness", value) for value in (4, 5, 6, 7)] == [0, 1, 1, 2]


def test_a_metric_without_a_band_has_no_level() -> None:
    assert BANDS.level("reward", 0.5) is None


def test_lines_within_a_good_band_are_not_kept_but_those_of_a_relative_one_are() -> None:
    keep = BANDS.remarkable()
    kept = {("queue_ms", 50.0): False, ("queue_ms", 100.0): True, ("staleness", 0.0): True, ("reward", 9.0): False}
    assert {case: keep(*case) for case in kept} == kept


def test_a_users_file_replaces_single_limits(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('schema = 1\norigin = "us"\n[band.queue_ms]\ngood = 5\ncritical = 6\n')
    bands = load_bands([mine])
    assert (bands.level("queue_ms", 7), bands.level("wait_ms", 7)) == (2, 0)
    assert bands.table["queue_ms"].origin == "us"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("schema = 2", "schema"),
        ("schema = 1\n[band.x]\ngood = 1", "band.x.critical"),
        ("schema = 1\n[band.x]\ngood = 2\ncritical = 1", "band.x.critical"),
        ("schema = 1\n[band.x]\ngood = 1\ncritical = 2\nhigher_is_worse = false", "band.x.critical"),
        ("schema = 1\n[band.x]\ngood = 1\ncritical = 2\nrelative_to = 'moon'", "band.x.relative_to"),
        ("schema = 1\n[band.x]\ngood = nan\ncritical = 2", "band.x.good"),
        ("schema = 1\n[band.x]\ngood = 1\ncritical = 2\ngod = 1", "band.x.god"),
        ("schema = 1\n[band.x]\ngood = 1\ncritical = 2\nunless = [3]", "band.x.unless"),
        ("schema = 1\n[band.x]\ngood = 1\ncritical = 2\nunless = ['']", "band.x.unless"),
        ("schema = 1\nband = 3", "band"),
    ],
)
def test_a_mistake_names_file_and_key(tmp_path: Path, text: str, key: str) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(text)
    with pytest.raises(DataFileError) as caught:
        load_bands([mine])
    assert (caught.value.file, caught.value.key) == (str(mine), key)


@pytest.mark.parametrize("higher", [True, False])
@pytest.mark.parametrize("inclusive", [True, False])
def test_the_levels_of_many_values_are_those_of_each(higher: bool, inclusive: bool) -> None:
    good, critical = (2.0, 5.0) if higher else (5.0, 2.0)
    band = Band("queue_ms", good, critical, higher, inclusive)
    values = [nan, -1.0, 2.0, nextafter(2.0, 0.0), nextafter(2.0, 9.0), 3.0, 5.0, nextafter(5.0, 9.0), inf, -inf]
    assert list(band.levels(values)) == [0 if isnan(value) else band.level(value) + 1 for value in values]
