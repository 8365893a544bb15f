"""One test for very many small cases: it names those that fail, instead of being collected a thousand times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any


def failures_of(check: Callable[..., None], cases: Iterable[Sequence[Any]]) -> list[str]:
    """`check` with the arguments of every case, each behind its name: the names of those that fail, and why."""
    failures, count = [], 0
    for name, *arguments in cases:
        count += 1
        try:
            check(*arguments)
        except Exception as error:
            failures.append(f"{name}: {type(error).__name__}: {error}")
    assert count, "no cases"
    return failures
