"""Reads the memory in use, and the size of the GPU's memory, in the step line of any trainer (see `step_lines.py`).

`mem 61.2GB`, `memory_gb=61.2`, `peak mem (MiB): 512`: with a unit, or it is not known what the number is.
`gpu_mem 61.2/79.1GB`, `gpu_mem_total_gb=79.1`: the size of a GPU's memory only next to what is in use of it, as lines
may contain the host's memory, too.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_AMOUNT = r"(?P<value>\d{1,9}(?:\.\d{1,9})?)"
_MEMORY = re.compile(
    r"(?i)(?<![\w/.-])[\"']?(?:(?:max|peak|gpu|cuda|vram)[ _]){0,2}(?:mem(?:ory)?|vram)"
    r"(?:[ _](?:allocated|alloc|reserved|used|usage|peak))?(?:[ _(]{1,2}(?P<named>[gm])i?b\)?)?[\"']?"
    rf"(?:\s?[:=]\s{{0,8}}|\s{{1,8}}){_AMOUNT}\s?(?:(?P<unit>[gm])i?b?\b)?(?![\w/%.]*[A-Za-z%])"
)
_OF_GPU, _OF_ALLOCATOR = re.compile(r"(?i)gpu|cuda|vram"), re.compile(r"(?i)alloc|reserved")
"""Words that make memory that of a GPU: its own, and those of its allocator."""
_BEHIND = re.compile(r"(?i)\s?/\s?(?P<value>\d{1,9}(?:\.\d{1,9})?)\s?(?P<named>[gm])i?b?\b")
"""Right behind what is in use."""
_TOTAL = (
    r"(?i)(?<![\w/.-])[\"']?{of}(?=\w*(?:total|capacity))(?:(?:gpu|cuda|vram|mem(?:ory)?|total|capacity)_){{2,4}}"
    r"(?P<named>[gm])i?b[\"']?\s?[:=]\s{{0,8}}(?P<value>\d{{1,9}}(?:\.\d{{1,9}})?)(?![\w.])"
)
_TOTAL_OF_GPU = re.compile(_TOTAL.format(of=r"(?=\w*(?:gpu|cuda|vram))"))
_ANY_TOTAL = re.compile(_TOTAL.format(of=""))
"""Next to what an allocator uses: that of a GPU."""
_GIB = {"g": 1.0, "m": 1.0 / 1024.0}


class Size(NamedTuple):
    """Position of an amount of memory in a line."""

    begin: int
    end: int
    gib: float
    """GiB per unit."""


def memory_in(body: str) -> tuple[Size | None, Size | None]:
    """The memory that a line reports as in use, and that of the GPU that it is of; None for what it does not state."""
    found = _MEMORY.search(body)
    if found is None:
        return None, None
    total = _total(found, body)
    unit = found["unit"] or found["named"] or (total and total["named"])
    if not unit:
        return None, None
    used = Size(*found.span("value"), _GIB[unit.lower()])
    return used, None if total is None else Size(*total.span("value"), _GIB[total["named"].lower()])


def _total(used: re.Match[str], body: str) -> re.Match[str] | None:
    """The size of the GPU's memory, where a line states it with its use."""
    if _OF_GPU.search(used[0]) is not None:
        return _BEHIND.match(body, used.end()) or _TOTAL_OF_GPU.search(body)
    if _OF_ALLOCATOR.search(used[0]) is not None:
        return _BEHIND.match(body, used.end()) or _ANY_TOTAL.search(body)
    return None
