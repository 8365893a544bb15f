"""The patterns of some packs, ready to scan blocks, and the line formats that scanning has learned."""

from __future__ import annotations

import re
from collections.abc import Sequence

from perfmon.core import Observation

from ..formats.compiled import CompiledPattern, compile_patterns, needle_index
from ..formats.schema import Pack
from ..formats.timestamps import HeaderReader
from .search import Ending, make_search
from .update_templates import KEEP_ALL, EvidenceLimits

_MAX_ENDINGS = 64
_TRAILING_COLOURS = re.compile(rb"(?:\x1b\[[\d;]*m)+\Z")


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
        needles, self.by_needle = needle_index(self.patterns)
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
        """Learn the end of a line with a needle at `at`, where any line with it gives `observations` alone."""
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
        ending = (number, whole, data[start:end])
        if ending in self._endings:
            return
        if len(self._endings) >= _MAX_ENDINGS:
            self._endings.pop(next(iter(self._endings)))
        self._endings[ending] = None
        group = self._groups.setdefault(repr(observations), len(self._groups))
        if group == len(self.repeated):
            self.repeated.append([*observations])
        self.search.learn_ending(Ending(number, at - start, whole, data[read], data[start:end], compiled.index, group))
