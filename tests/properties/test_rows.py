"""Rows are measured and compared as exactly as cell by cell."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.style import Style

from perfmon.tui.render.rows import Fitted, Row, changed, crop, row_cells

STYLES = (Style(color="red"), Style(color="blue"), Style(bold=True))
RUNS = st.lists(st.tuples(st.text("ab ░█…✓é日本", max_size=6), st.sampled_from(STYLES)), max_size=6)
WIDTH = 20


def cells_of(row: Row) -> list[tuple[str, Style]]:
    """A character and its style a cell; a wide one has its second cell, too."""
    return [cell for text, style in row for char in text for cell in [(char, style)] * cell_len(char)]


@given(RUNS)
def test_a_row_has_the_cells_of_its_runs(runs: list[tuple[str, Style]]) -> None:
    assert row_cells(runs) == sum(cell_len(text) for text, _ in runs)


@given(RUNS, RUNS, st.booleans())
def test_nothing_outside_of_what_changed_differs(
    before: list[tuple[str, Style]], after: list[tuple[str, Style]], log: bool
) -> None:
    old, new = crop(before, WIDTH, STYLES[0]), crop(after, WIDTH, STYLES[0])
    if log:
        old, new = Fitted(old), Fitted(new)
    span = changed(old, new, WIDTH)
    if span is None:
        assert cells_of(old) == cells_of(new)
        return
    first, end = span
    assert 0 <= first < end <= WIDTH
    assert cells_of(old)[:first] == cells_of(new)[:first]
    assert cells_of(old)[end:] == cells_of(new)[end:]
