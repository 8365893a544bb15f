"""Requests that were served are folded: of those line after line only the first is left, wherever a text is cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from perfmon.logbuffer.lines import CompiledFilter, Filter

LINES = (
    ("", False),
    ("loss 1.2", False),
    ('10.0.0.5:53122 - "POST /v1/chat/completions HTTP/1.1" 200 OK', True),
    ('"GET / HTTP/2" 304', True),
    ('"GET / HTTP/1.1" 404 Not Found', False),
    ("HTTP Request: POST http://x HTTP/1.1 200 OK", True),
    ("XHTTP/1.1 200 OK", False),
    ("HTTP/HTTP/1 200", True),
    ("HTTP/1.1 2000", False),
    ('HTTP/1.1 500, then HTTP/1.1" 200', True),
    ("[GIN] 2026/11/26 - 07:00:00 | 200 |   1.2ms", True),
    (" [GIN] 2026/11/26 - 07:00:00 | 200 |", False),
    ("[GIN] 2026/11/26 - 07:00:00 | 404 |", False),
)
TEXTS = st.lists(st.sampled_from(LINES), min_size=1, max_size=9)


@given(TEXTS, st.none() | st.sampled_from(LINES))
def test_the_first_of_each_row_is_left(lines: list[tuple[str, bool]], above: tuple[str, bool] | None) -> None:
    served = [above is not None and above[1], *(of for _, of in lines)]
    left = [at for at in range(len(lines)) if not (served[at] and served[at + 1])]
    text = "\n".join(line for line, _ in lines)
    assert [
        at for part in CompiledFilter(Filter(folds=True)).search(text, above[0] if above else "") for at in part
    ] == left


def test_a_hostile_line_is_one_line() -> None:
    hostile = "\n".join(
        line * (65536 // len(line)) for line in ("HTTP/1 ", "HTTP/", "[GIN]", 'HTTP/1.1" ', "HTTP/1  4")
    )
    assert list(CompiledFilter(Filter(folds=True)).search(hostile)) == [[0, 1, 2, 3, 4]]
