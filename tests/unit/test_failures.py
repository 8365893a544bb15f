"""Tests of many small cases name those that fail."""

from __future__ import annotations

import pytest
from failures import failures_of


def _is_even(number: int) -> None:
    assert number % 2 == 0, f"{number} is odd"


def test_failures_of_names_what_fails_and_why() -> None:
    assert failures_of(_is_even, [("two", 2), ("four", 4)]) == []
    (result,) = failures_of(_is_even, [("two", 2), ("three", 3)])
    assert result.startswith("three: AssertionError: 3 is odd")


def test_failures_of_no_cases_is_a_failure() -> None:
    with pytest.raises(AssertionError, match="no cases"):
        failures_of(_is_even, [])
