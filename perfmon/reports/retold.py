"""The same value with every text in it retold: snapshots and pictures without secrets, or with names masked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any, TypeVar, cast

_T = TypeVar("_T")


def retold(value: _T, tell: Callable[[str], str]) -> _T:
    """A copy of a frozen dataclass, tuple, mapping or string in which `tell` has changed every text."""
    return cast(_T, _retold(value, tell))


def _retold(value: Any, tell: Callable[[str], str]) -> Any:
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        return tell(value)
    if isinstance(value, tuple):
        return value if _is_numbers(value) else tuple(_retold(item, tell) for item in value)
    if isinstance(value, Mapping):
        return {_retold(key, tell): _retold(item, tell) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: _retold(getattr(value, field.name), tell) for field in fields(value)})
    return value


def texts(value: Any) -> Iterator[str]:
    """Every text in such a value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from (text for pair in value.items() for item in pair for text in texts(item))
    elif isinstance(value, tuple) and not _is_numbers(value):
        yield from (text for item in value for text in texts(item))
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from texts(getattr(value, field.name))


def _is_numbers(value: tuple[Any, ...]) -> bool:
    """Series hold numbers, or pairs of them, thousands: nothing to look at."""
    first = value[0] if value else 0.0
    return isinstance(first, float | int) or (
        isinstance(first, tuple) and bool(first) and all(isinstance(item, float | int) for item in first)
    )
