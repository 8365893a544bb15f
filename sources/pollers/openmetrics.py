"""Reads pages of metrics, Prometheus' text and OpenMetrics alike: only the samples of names that are asked for.

`prometheus-client` reads every line into objects, which takes 0.5 s a megabyte (`python bench/openmetrics.py`); of a
page that engines or Ray serve hardly a tenth is looked at, so here all other lines are passed over unread.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite

MOST = 20_000
"""Samples that are read of one page: a page that has more of what was asked for is broken, or means harm."""
_SAMPLE = re.compile(
    rb'([A-Za-z_:][\w:]*+)(?:\{((?:[^"}]|"(?:[^"\\]|\\.)*+")*+)\})?[ \t]+([^ \t#]++)'
    rb"(?:[ \t]+-?[\d.eE+-]++)?[ \t]*+(?:#.*+)?\r?"
)
_LABEL = re.compile(rb'([A-Za-z_]\w*+)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*+)"')
_ESCAPE = re.compile(r'\\([\\"n])')
_TYPE = re.compile(rb"#[ \t]+TYPE[ \t]+(\S+)[ \t]+(\w+)")


@dataclass(frozen=True, slots=True)
class Sample:
    """One number of a page."""

    name: str
    """As on the page: with `_total`, `_bucket` and so on."""
    labels: Mapping[str, str]
    """Unescaped, else as they came: hostile."""
    value: float
    """Finite."""


@dataclass(frozen=True, slots=True)
class Samples:
    """What a page tells of the names that were asked for."""

    told: tuple[Sample, ...]
    refused: int
    """Lines of these names that hold no finite number."""


def read_samples(page: bytes, names: Collection[str]) -> Samples:
    """The samples of these names, in the order of the page."""
    wanted = frozenset(name.encode() for name in names)
    heads = tuple(wanted)
    told: list[Sample] = []
    refused = 0
    known: dict[bytes | None, Mapping[str, str]] = {None: {}}
    for line in page.split(b"\n"):
        if not line.startswith(heads):
            continue
        match = _SAMPLE.fullmatch(line)
        if match is None or match[1] not in wanted:
            refused += match is None
            continue
        value = _number(match[3])
        if value is None:
            refused += 1
            continue
        labels = known.get(match[2])
        if labels is None:
            labels = known[match[2]] = _labels(match[2])
        told.append(Sample(match[1].decode(), labels, value))
        if len(told) >= MOST:
            break
    return Samples(tuple(told), refused)


def read_types(page: bytes) -> Iterator[tuple[str, str]]:
    """Name and type (`gauge`, `counter`, `histogram`, …) of the families of a page, as its comments tell them."""
    for line in page.split(b"\n"):
        if line.startswith(b"#"):
            match = _TYPE.match(line)
            if match is not None:
                yield match[1].decode("utf-8", "replace"), match[2].decode()


def _number(text: bytes) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if isfinite(value) and b"_" not in text else None


def _labels(text: bytes) -> Mapping[str, str]:
    return {name.decode(): _unescaped(value) for name, value in _LABEL.findall(text)}


def _unescaped(value: bytes) -> str:
    text = value.decode("utf-8", "replace")
    return _ESCAPE.sub(lambda match: "\n" if match[1] == "n" else match[1], text) if "\\" in text else text
