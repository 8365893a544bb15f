"""The largest value of a stretch, however long the column is."""

from __future__ import annotations

from array import array
from random import Random

import pytest

from perfmon.rules.tracks import Column


@pytest.mark.parametrize("size", [1, 255, 256, 257, 512, 5000])
def test_the_largest_of_any_stretch(size: int) -> None:
    random = Random(size)
    values = array("d", [random.uniform(-5.0, 5.0) for _ in range(size)])
    column = Column(array("d", range(size)), values)
    edges = [0, 1, 255, 256, 257, 511, 512, 513, size - 1, size, *(random.randrange(size + 1) for _ in range(60))]
    for start in edges:
        for stop in edges:
            if 0 <= start < stop <= size:
                assert column.largest(start, stop) == max(values[start:stop]), (start, stop)
