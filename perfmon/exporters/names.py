"""Names, units and labels as Prometheus wants them: base units, said at the end of the name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from perfmon.text import evidence_text

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
