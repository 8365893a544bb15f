"""Choices of arguments for shell completion: argparse accepts any value, the command validates it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator


class Offered:
    """The `choices` of an argument that shells complete; they are asked for only when a completion script is made."""

    def __init__(self, names: Callable[[], Iterable[str]]) -> None:
        self._names = names

    def __contains__(self, value: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._names()))
