"""A loss or a gradient norm that is no number any more is read like any other, by every pack that reads one."""

from __future__ import annotations

import re
from math import isfinite

import pytest
from failures import failures_of

from perfmon.core.model import SAMPLE
from perfmon.sources.formats.loader import FIGURE, load_packs
from perfmon.sources.formats.schema import Pattern, Sample
from perfmon.sources.scan.scanner import Scanner

PACKS = load_packs()
SCANNER = Scanner(PACKS)
JUDGED = ("loss", "grad_norm")
PRINTED = ("nan", "NaN", "inf", "-inf", "Infinity", "-Infinity", "-nan")
JSON = ("NaN", "Infinity", "-Infinity")
"""As Python, PyTorch, C++, JSON and JavaScript print it."""
NUMBER = re.compile(r"(?<![\w.])[-+]?(?:(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]*[A-Za-z])")
CASES = [
    (f"{pattern.name}-{number}-{metric}", pattern, sample, metric)
    for pack in PACKS
    for pattern in pack.patterns
    for number, sample in enumerate(pattern.samples)
    for metric in JUDGED
    if isfinite(sample.gives.get(metric, float("nan")))
]


def _result_of(text: str) -> dict[str, float]:
    scanned = SCANNER.scan((text + "\n").encode())
    return {made[1]: made[2] for record in scanned.records if record[0] >= 0 for made in record[5] if made[0] == SAMPLE}


def _figure_at(text: str, metric: str, value: float) -> re.Match[str]:
    """The figure in a sample that the metric is read from: the first one that has its value, behind a word for it."""
    figures = [found for found in NUMBER.finditer(text) if float(found[0].replace(",", "")) == value]
    for found in figures:
        changed = text[: found.start()] + "7.875" + text[found.end() :]
        if _result_of(changed).get(metric) == 7.875:
            return found
    raise AssertionError(f"no figure of {metric} in {text!r}")


def _is_read_when_not_finite(pattern: Pattern, sample: Sample, metric: str) -> None:
    found = _figure_at(sample.text, metric, sample.gives[metric])
    for printed in JSON if pattern.style == "json" else PRINTED:
        text = sample.text[: found.start()] + printed + sample.text[found.end() :]
        assert not isfinite(_result_of(text).get(metric, 0.0)), f"{printed}: {text!r}"


def test_every_pattern_of_a_loss_or_a_gradient_norm_reads_what_is_not_finite() -> None:
    assert CASES
    assert failures_of(_is_read_when_not_finite, CASES) == []


@pytest.mark.parametrize("text", ["0.5", "-1.25e-05", ".5", "5.", "12", "1e+30", *PRINTED])
def test_a_figure_is_any_number_and_what_is_none(text: str) -> None:
    assert re.fullmatch(FIGURE, text)
    assert float(text) is not None


@pytest.mark.parametrize("text", ["", "-", ".", "nanny", "info", "e5", "1.2.3", "N/A"])
def test_a_word_is_no_figure(text: str) -> None:
    assert re.fullmatch(FIGURE, text) is None
    assert re.match(FIGURE + r"(?![\w.])", text) is None
