"""The patterns of some packs, ready to scan blocks, and the line formats that scanning has learned."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from perfmon.core import Observation

from ..formats.compiled import MORE, CompiledPattern, compile_patterns
from ..formats.schema import Pack
from ..formats.timestamps import HeaderReader
from .search import Ending, grouped, make_search
from .update_templates import KEEP_ALL, EvidenceLimits

_MAX_ENDINGS = 64
_MAX_TOGETHER = 4096
_TRAILING_COLOURS = re.compile(rb"(?:\x1b\[[\d;]*m)+\Z")


class PatternIndex(dict[int, tuple[int, ...]]):
    """For each needle the patterns to try when it is found, worked out when it is found first: most never are.

    Of needles that are looked for together only the first one is reported where others begin inside it (see
    `search.py`); so each needle also stands for those of its group that share a stretch of text with it.
    """

    def __init__(self, patterns: Sequence[CompiledPattern]) -> None:
        """`patterns` in the order in which they are tried."""
        super().__init__()
        self._patterns: dict[bytes, set[int]] = {}
        for compiled in patterns:
            for needle in compiled.needles:
                self._patterns.setdefault(needle, set()).add(compiled.index)
        self.needles = sorted(self._patterns)
        self._groups = {number: group for group in grouped(self.needles) for number in group}
        packs = list(dict.fromkeys(compiled.pattern.pack for compiled in patterns))
        self._packs = [packs.index(compiled.pattern.pack) for compiled in patterns]
        self._several = [f"(?P<{MORE}>" in compiled.pattern.regex for compiled in patterns]
        """By pattern, whether more records of its pack may stand on a line: then the first of them is read."""
        self._of_several = lru_cache(_MAX_TOGETHER)(self._in_order)

    def candidates(self, found: Sequence[tuple[int, int]]) -> tuple[int, ...]:
        """The patterns to try on a record that holds several needles (position, number), in the order of packs and
        files; where several records of a pack may stand on a line, that one first whose needle stands first."""
        if len(found) == 1:
            return self[found[0][1]]
        return self._of_several(tuple(dict.fromkeys(needle for _, needle in found)))

    def _in_order(self, needles: tuple[int, ...]) -> tuple[int, ...]:
        first: dict[int, int] = {}
        for at, needle in enumerate(needles):
            for index in self[needle]:
                first.setdefault(index, at)
        return tuple(
            sorted(first, key=lambda index: (self._packs[index], first[index] if self._several[index] else 0, index))
        )

    def __missing__(self, needle: int) -> tuple[int, ...]:
        found = self.needles[needle]
        others = (self.needles[number] for number in self._groups[needle])
        near = (self._patterns[other] for other in others if _share_text(found, other))
        near_patterns = self[needle] = tuple(sorted(set().union(*near)))
        return near_patterns


def _share_text(found: bytes, other: bytes) -> bool:
    """True where another needle may stand in one that is found, around it, or begin at its end."""
    return other in found or found in other or any(other.startswith(found[-size:]) for size in range(1, len(found)))


class PatternSet:
    """Patterns by the needles that find their lines; `limits` are those of weight updates that need no evidence."""

    def __init__(self, packs: Sequence[Pack], limits: EvidenceLimits = KEEP_ALL) -> None:
        self.packs = tuple(packs)
        self.limits = limits
        self.patterns: list[CompiledPattern] = compile_patterns(self.packs)
        self.pattern_names = [compiled.pattern.name for compiled in self.patterns]
        """`pack/pattern` by a record's pattern index."""
        self.headers = HeaderReader(self.packs)
        self.update_patterns = frozenset(
            at for at, compiled in enumerate(self.patterns) if any(e.kind == "leg" for e in compiled.pattern.emit)
        )
        """Patterns of the phases of weight updates."""
        self.bar_patterns = frozenset(at for at, compiled in enumerate(self.patterns) if compiled.pattern.frame)
        """Patterns of progress bars, whose frames may stand before a record on the same line."""
        self.row_pattern = next((one for one in self.patterns if one.pattern.style == "table"), None)
        """The pattern of rows of logs that are tables."""
        self.by_needle = PatternIndex(self.patterns)
        needles = self.by_needle.needles
        self._numbers = {needle: number for number, needle in enumerate(needles)}
        self.template_pattern = min(self.update_patterns, default=-1)
        """The pattern whose lines the search may read by templates; they have its first needle."""
        self._template_needle = b""
        if self.update_patterns:
            self._template_needle = self.patterns[self.template_pattern].needles[0]
        self.search = make_search(needles, self._numbers.get(self._template_needle, -1), self.headers)
        self.repeated: list[list[Observation]] = []
        """Observations by the group of an `Ending`."""
        self._groups: dict[str, int] = {}
        self._endings: dict[tuple[int, bool, bytes], None] = {}
        """The last ones that were learned."""

    def pattern_pack(self, index: int) -> str:
        """Pack id of a record's pattern index."""
        return self.patterns[index].pattern.pack

    def message(self, text: str) -> str:
        """The text of a line behind clocks and prefixes."""
        return self.headers.message(text)[0]

    def learn_phase(self, tail: bytes, update: str, phase: str) -> None:
        """Learn the template of the line of a phase: `tail` from the needle on, without its newline."""
        if tail.startswith(self._template_needle):
            self.search.learn_phase(tail, update, phase)

    def learn_ending(
        self, compiled: CompiledPattern, text: str, data: bytes, begin: int, end: int, at: int,
        observations: list[Observation],
    ) -> None:  # fmt: skip
        """Learn the end of a line with a needle at `at`, where any line with it gives `observations` alone; of an end
        that differs from line to line only what is read, up to the blank behind it."""
        needle = next((one for one in compiled.needles if data.startswith(one, at)), b"")
        number = self._numbers.get(needle, -1)
        if number < 0 or b"\r" in data[begin:end] or end == len(data):
            return
        if any(index != compiled.index and self.patterns[index].may_fit(text) for index in self.by_needle[number]):
            return
        place, span = text.find(needle.decode()), compiled.span(text)
        if span is None or span[0] > place:
            return
        read = at - place + span[0]
        if read < begin or data[read:at] != text[span[0] : place].encode():
            return
        start = begin + len(_TRAILING_COLOURS.sub(b"", data[begin:read]))
        whole = start == begin
        start -= not whole  # whether a word begins there
        stop = read + len(text[slice(*span)].encode()) + 1
        is_open = (
            compiled.ends_by_blank
            and self.by_needle[number] == (compiled.index,)
            and data[read:stop] == f"{text[slice(*span)]} ".encode()
        )
        ending = (number, whole, data[start : stop if is_open else end])
        if ending in self._endings:
            return
        if len(self._endings) >= _MAX_ENDINGS:
            self._endings.pop(next(iter(self._endings)))
        self._endings[ending] = None
        group = self._groups.setdefault(repr(observations), len(self._groups))
        if group == len(self.repeated):
            self.repeated.append([*observations])
        self.search.learn_ending(
            Ending(number, at - start, whole, data[read], ending[2], is_open, compiled.index, group)
        )
