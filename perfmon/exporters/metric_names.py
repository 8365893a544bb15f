"""Names of exported metrics, and families of samples within bounds."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from math import isfinite
from typing import NamedTuple

from prometheus_client.metrics_core import Metric

from perfmon.core import evidence_text, plain

# --- Names, units and labels as Prometheus wants them: base units, at the end of the name ---

PREFIX = "perfmon_"
LONGEST_VALUE = 200
"""Characters of a label's value that are kept."""
_LONGEST_NAME = 80
_MIB = float(1 << 20)
_UNITS = (
    # suffix of perfmon's name, what stands there instead, factor
    ("_per_min", "_per_second", 1 / 60),
    ("_per_s", "_per_second", 1.0),
    ("_mb_s", "_bytes_per_second", 1e6),
    ("_gbs", "_bytes_per_second", 1e9),
    ("_bytes", "_bytes", 1.0),
    ("_tps", "_tokens_per_second", 1.0),
    ("tflops", "flops_per_second", 1e12),
    ("_gib", "_bytes", 1024 * _MIB),
    ("_gb", "_bytes", 1e9),
    ("_mb", "_bytes", _MIB),
    ("_mhz", "_hertz", 1e6),
    ("_pct", "_ratio", 0.01),
    ("_share", "_share_ratio", 0.01),
    ("_usage", "_usage_ratio", 0.01),
    ("_fill", "_fill_ratio", 0.01),
    ("_busy", "_busy_ratio", 0.01),
    ("_us", "_seconds", 1e-6),
    ("_ms", "_seconds", 1e-3),
    ("_s", "_seconds", 1.0),
    ("_w", "_watts", 1.0),
    ("_j", "_joules", 1.0),
    ("_c", "_celsius", 1.0),
    ("staleness", "staleness_steps", 1.0),
    ("off_policy", "off_policy_steps", 1.0),
)
_BAD = re.compile(r"[^a-zA-Z0-9_]+")
_RESERVED = frozenset(
    {"signature", "severity", "state", "job", "instance", "le", "quantile", "metric", "cause", "title"}
)
"""Names of labels that mean something else here or to Prometheus."""


class Named(NamedTuple):
    """Exported name of a metric."""

    base: str
    """With the unit at its end, without a prefix."""
    factor: float
    """Factor to base units."""
    operation: str
    """`reload_weights` of `rpc_ms.reload_weights`; "" for most."""


@lru_cache(maxsize=4096)
def named(metric: str) -> Named:
    """The name and unit outside of a metric, or of a value of a reading.

    >>> named("queue_ms"), named("rpc_ms.reload_weights").operation
    (Named(base='queue_seconds', factor=0.001, operation=''), 'reload_weights')
    """
    own, _, operation = metric.partition("{")[0].partition(".")
    for suffix, instead, factor in _UNITS:
        if own.endswith(suffix):
            return Named(_word(own.removesuffix(suffix) + instead), factor, cleaned(operation))
    return Named(_word(own), 1.0, cleaned(operation))


def label_name(key: str) -> str:
    """A field of a finding as the name of a label, which none of perfmon's own has."""
    name = _word(key)
    return f"identity_{name}" if name in _RESERVED or name.startswith("_") or name[:1].isdigit() else name


def cleaned(text: str, more: int = 0) -> str:
    """A label's value: plain, without secrets, not long; `more` characters are let pass."""
    text, most = evidence_text(text), LONGEST_VALUE + more
    return text if len(text) <= most else text[: most - 1] + "…"


def labelled(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Labels in order, their values cleaned."""
    return tuple((name, _value(name, value)) for name, value in sorted(labels.items()))


@lru_cache(maxsize=65536)
def _value(name: str, value: str) -> str:
    """Mask values whose label name marks them as secret, as in `api_key="abcd-1234"`."""
    return cleaned(f"{name}={value}", len(name) + 1).removeprefix(f"{name}=")


def _word(text: str) -> str:
    return _BAD.sub("_", text)[:_LONGEST_NAME] or "_"


# --- The families of one page, within bounds: what has had a place in the page before keeps it, and what is left out is
# counted ---

MOST_OF_FAMILY, MOST = 2_000, 20_000
"""Series of one family, and of a page."""
LEFT_OUT = f"{PREFIX}export_left_out_series"
Labels = tuple[tuple[str, str], ...]


class Places:
    """Series of earlier pages, which keep their place: a series that comes and goes is useless."""

    def __init__(self, most_of_family: int = MOST_OF_FAMILY, most: int = MOST) -> None:
        self._most_of_family, self._most = most_of_family, most
        self._held: dict[str, dict[Labels, None]] = {}

    def admit(self, wanted: dict[str, dict[Labels, float]]) -> tuple[dict[str, dict[Labels, None]], Counter[str]]:
        """(who has a place, in their order; how many of each family have none)."""
        kept = {
            name: {labels: None for labels in self._held.get(name, ()) if labels in series}
            for name, series in wanted.items()
        }
        left, out = self._most - sum(map(len, kept.values())), Counter[str]()
        for name, series in wanted.items():
            new = [labels for labels in series if labels not in kept[name]]
            room = max(0, min(left, self._most_of_family - len(kept[name])))
            kept[name].update(dict.fromkeys(new[:room]))
            left -= len(new[:room])
            if len(new) > room:
                out[name] = len(new) - room
        self._held = kept
        return kept, out


class Families:
    """Takes samples of any family, in any order."""

    def __init__(self) -> None:
        self._series: dict[str, dict[Labels, float]] = {}
        self._about: dict[str, tuple[str, str]] = {}
        self._twice: Counter[str] = Counter()

    def gauge(self, name: str, about: str, value: float | None, /, **labels: str) -> None:
        """A value that goes up and down; None and what is not finite is left out. `name` lacks the prefix."""
        self._add(f"{PREFIX}{name}", "gauge", about, value, labels)

    def counter(self, name: str, about: str, value: float, /, **labels: str) -> None:
        """A count that only grows; `name` lacks the prefix and `_total`."""
        self._add(f"{PREFIX}{name}", "counter", about, value, labels)

    def info(self, name: str, about: str, /, **labels: str) -> None:
        """Add an info metric with the value 1; `name` lacks the prefix and `_info`."""
        self._add(f"{PREFIX}{name}", "info", about, 1.0, labels)

    def _add(self, name: str, kind: str, about: str, value: float | None, labels: dict[str, str]) -> None:
        if value is None or not isfinite(value):
            return
        self._about.setdefault(name, (kind, plain(about)))
        series, key = self._series.setdefault(name, {}), labelled(labels)
        if key in series:  # long names that differ at their ends only
            self._twice[name] += 1
        else:
            series[key] = float(value)

    def metrics(self, places: Places) -> Iterator[Metric]:
        """Everything that has a place, by name."""
        kept, out = places.admit(dict(sorted(self._series.items())))
        for name, series in kept.items():
            kind, about = self._about[name]
            metric = Metric(name, about, kind)
            ending = {"counter": "_total", "info": "_info"}.get(kind, "")
            for labels in series:
                metric.add_sample(name + ending, dict(labels), self._series[name][labels])
            if metric.samples:
                yield metric
        yield _left_out(out + self._twice)


def _left_out(out: Counter[str]) -> Metric:
    metric = Metric(LEFT_OUT, 'Series dropped because the page is full, by family; family="" is the total', "gauge")
    metric.add_sample(LEFT_OUT, {"family": ""}, float(out.total()))
    for family, count in sorted(out.items()):
        metric.add_sample(LEFT_OUT, {"family": family}, float(count))
    return metric
