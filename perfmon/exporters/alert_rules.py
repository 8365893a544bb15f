"""Alert rules for Prometheus: one for every signature, for every band, and a few for perfmon itself."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from perfmon.rules.bands import Band, Bands
from perfmon.rules.schema import Signature
from perfmon.text import plain
from perfmon.units import format_value, metric_unit

_LONGEST = 2000
_BAND_FOR = "5m"
_WORD = re.compile(r"[^a-zA-Z0-9]+")
_NOTE = "note"


@dataclass(frozen=True, slots=True)
class Rule:
    """One alert of Prometheus."""

    alert: str
    expr: str
    wait: str = "0s"
    """How long it has to hold."""
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    """Templates of Prometheus."""


def alert_rules(signatures: Iterable[Signature], bands: Bands) -> str:
    """A file of rules, as YAML; the same data give the same text."""
    groups = {
        "perfmon-findings": [_of_signature(signature) for signature in signatures if signature.kind != _NOTE],
        "perfmon-bands": [_of_band(bands.table[metric]) for metric in sorted(bands.table)],
        "perfmon-itself": list(_of_itself()),
    }
    return "\n".join(["# Made by `perfmon export alert-rules` from the signatures and bands.", *_yaml(groups), ""])


def selector(name: str) -> str:
    """A text as a string of PromQL."""
    return json.dumps(plain(name, _LONGEST), ensure_ascii=False)


def _of_signature(signature: Signature) -> Rule:
    """perfmon knows pending from firing, so nothing is waited for; while its logs are silent an alert stays."""
    states = 'state=~"firing|acked|unknown"'
    firing = f"max without (state) (perfmon_finding{{signature={selector(signature.id)}, {states}}})"
    advice, cost = " ".join(signature.advice), ": {{ $value | humanizePercentage }} of the window lost"
    return Rule(
        alert=f"Perfmon{_camel(signature.id)}",
        expr=f"{firing} * ignoring (severity) group_left () perfmon_finding_lost_ratio",
        labels={"kind": signature.kind, "signature": _told(signature.id)},
        annotations={
            "summary": _told(signature.title) + (cost if signature.kind == "bottleneck" else ""),
            "description": _told(signature.meaning),
            "mend": _told(advice),
            "explained_by": _told(f"perfmon rules explain {signature.id}"),
        },
    )


def _of_band(band: Band) -> Rule:
    unit = metric_unit(band.metric)
    limit = format_value(band.critical, unit) + (f" + {band.relative_to}" if band.relative_to else "")
    beyond = "above" if band.higher_is_worse else "below"
    return Rule(
        alert=f"PerfmonCritical{_camel(band.metric)}",
        expr=f"perfmon_level{{metric={selector(band.metric)}}} == 2",
        wait=_BAND_FOR,
        labels={"severity": "info", "kind": "band", "metric": _told(band.metric)},
        annotations={
            "summary": f"{_told(band.metric)} is critical ({beyond} {_told(limit)})",
            "description": "A value alone: a finding says whether it costs time. Limits from: " + _told(band.origin),
        },
    )


def _of_itself() -> Iterator[Rule]:
    warning = {"severity": "warning", "kind": "perfmon"}
    yield Rule(
        "PerfmonStale",
        "perfmon_run_stale_seconds > 0",
        "2m",
        warning,
        {"summary": "All logs are silent for {{ $value | humanizeDuration }}: nothing is known of the present"},
    )
    yield Rule(
        "PerfmonHostLost",
        'perfmon_link_state{state=~"stale|reconnecting|refused"} == 1',
        "2m",
        warning,
        {"summary": "{{ $labels.host }} does not answer ({{ $labels.state }})"},
    )
    yield Rule(
        "PerfmonPollerFailed",
        'perfmon_poller_state{state=~"stale|failed"} == 1',
        "5m",
        warning,
        {"summary": "{{ $labels.poller }} on {{ $labels.host }} cannot be asked ({{ $labels.state }})"},
    )
    yield Rule(
        "PerfmonSeriesLeftOut",
        'perfmon_export_left_out_series{family=""} > 0',
        "15m",
        {"severity": "info", "kind": "perfmon"},
        {"summary": "{{ $value }} series have no room in the page of perfmon"},
    )


def _camel(name: str) -> str:
    return "".join(word[:1].upper() + word[1:] for word in _WORD.split(name))


def _told(text: str) -> str:
    """Text that is no template, whatever it holds."""
    return plain(" ".join(text.split()), _LONGEST).replace("{{", '{{ "{{" }}')


# --- YAML: strings as JSON writes them are YAML ---------------------------------------------------------------------
def _yaml(groups: dict[str, list[Rule]]) -> Iterator[str]:
    yield "groups:"
    for name, rules in groups.items():
        yield f"  - name: {name}"
        yield "    rules:"
        for rule in rules:
            yield from _rule(rule)


def _rule(rule: Rule) -> Iterator[str]:
    yield f"      - alert: {rule.alert}"
    yield f"        expr: {_quoted(rule.expr)}"
    if rule.wait != "0s":
        yield f"        for: {rule.wait}"
    for key, table in (("labels", rule.labels), ("annotations", rule.annotations)):
        if table:
            yield f"        {key}:"
            yield from _table(list(table.items()))


def _table(items: Sequence[tuple[str, str]]) -> Iterator[str]:
    for key, value in items:
        yield f"          {key}: {_quoted(value)}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
