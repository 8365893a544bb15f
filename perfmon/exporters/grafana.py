"""A dashboard for Grafana: the verdict, the findings, every metric that has limits, logs, GPUs, hosts and queues."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from perfmon.rules.bands import Band, Bands
from perfmon.rules.schema import Signature
from perfmon.text import plain

from .alert_rules import selector
from .names import named
from .panels import Line, Place, panel, row, stat, state_timeline, table

_ONLY = 'instance=~"$instance"'
_POLLED = (
    # row, title, families with what a line is called
    ("GPUs", "Utilisation", (("gpu", "util_pct"),), "{{host}} {{gpu}}"),
    ("GPUs", "Memory in use", (("gpu", "mem_used_mb"),), "{{host}} {{gpu}}"),
    ("GPUs", "Power", (("gpu", "power_w"),), "{{host}} {{gpu}}"),
    ("GPUs", "Temperature", (("gpu", "temp_c"),), "{{host}} {{gpu}}"),
    ("GPUs", "SM clock", (("gpu", "sm_mhz"),), "{{host}} {{gpu}}"),
    ("GPUs", "Throttled", (("gpu", "throttled"),), "{{host}} {{gpu}}"),
    ("Hosts", "Processor", (("host", "cpu_pct"), ("host", "iowait_pct")), "{{host}}"),
    ("Hosts", "Memory in use", (("host", "mem_used_mb"),), "{{host}}"),
    ("Hosts", "Disk in use", (("disk", "used_pct"),), "{{host}} {{mount}}"),
    ("Hosts", "Network", (("nic", "rx_mb_s"), ("nic", "tx_mb_s")), "{{host}} {{device}}"),
    ("Queues", "Running and waiting", (("queue", "running"), ("queue", "waiting")), "{{host}} {{queue}}"),
    ("Queues", "KV cache in use", (("queue", "kv_usage_pct"),), "{{host}} {{queue}}"),
    ("Queues", "Generated", (("queue", "gen_tps"),), "{{host}} {{queue}}"),
    ("Queues", "Object store filled", (("queue", "store_fill_pct"),), "{{host}} {{queue}}"),
)
"""What pollers tell; the names are those of `sources.polls.reading.Area`."""
_GRAFANA_UNITS = {
    "_seconds": "s", "_ratio": "percentunit", "_bytes": "bytes", "_bytes_per_second": "Bps", "_watts": "watt",
    "_hertz": "hertz", "_celsius": "celsius", "_joules": "joule",
}  # fmt: skip


def dashboard(signatures: Sequence[Signature], bands: Bands) -> str:
    """A file to import in Grafana (schema 39, Grafana 10 or newer); the same data give the same text."""
    place = Place()
    panels = [
        *_answers(place, signatures),
        row(place, "Metrics with limits"),
        *(_band_panel(place, bands.table[metric]) for metric in sorted(bands.table)),
        row(place, "Logs"),
        *_log_panels(place),
        *_polled_panels(place),
    ]
    made = {
        "uid": "perfmon",
        "title": "perfmon",
        "description": "Where the time of a run goes. Made by `perfmon export grafana` from the signatures and bands.",
        "tags": ["perfmon"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "15s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": list(_variables())},
        "annotations": {"list": []},
        "panels": panels,
    }
    return json.dumps(made, indent=2, ensure_ascii=False) + "\n"


def _variables() -> Iterator[dict[str, Any]]:
    yield {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus", "current": {}}
    yield {
        "name": "instance",
        "label": "run",
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "query": {"query": "label_values(perfmon_build_info, instance)", "refId": "instance"},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def _answers(place: Place, signatures: Iterable[Signature]) -> Iterator[dict[str, Any]]:
    yield row(place, "What is wrong")
    severities = {0: ("no bottleneck", "green"), 1: ("info", "blue"), 2: ("warning", "orange"), 3: ("critical", "red")}
    yield stat(place, "Verdict", f"max(perfmon_verdict_severity{{{_ONLY}}})", mapped=severities)
    yield stat(place, "Which", f"perfmon_verdict_info{{{_ONLY}}}", named_by="{{title}}")
    yield stat(place, "Lost of the window", f"max(perfmon_verdict_lost_ratio{{{_ONLY}}})", unit="percentunit")
    yield stat(place, "Findings that fire", f"sum(perfmon_signature_firing{{{_ONLY}}})")
    causes = Line(f"sum by (cause) (perfmon_ledger_seconds{{{_ONLY}}})", "{{cause}}")
    yield panel(place, "Whose the time was", [causes], unit="s", stacked=True, wide=True)
    yield table(place, "Findings", f'perfmon_finding{{{_ONLY}, state!="resolved"}} == 1')
    titles = {signature.id: plain(signature.title, 80) for signature in signatures if signature.kind != "note"}
    yield state_timeline(
        place, "Findings through time", f"max by (signature) (perfmon_signature_firing{{{_ONLY}}})", titles
    )


def _band_panel(place: Place, band: Band) -> dict[str, Any]:
    base, factor, operation = named(band.metric)
    chosen = f"metric={selector(band.metric)}, {_ONLY}"
    stats = ("p50", "p95", "max") if band.higher_is_worse else ("p50", "p95", "mean")
    lines = [
        *(
            Line(f'perfmon_window_{base}{{{chosen}, stat="{one}"}}', f"{one} {{{{log}}}} {{{{group}}}}")
            for one in stats
        ),
        Line(f"max by (limit) (perfmon_limit_{base}{{{chosen}}})", "limit: {{limit}}", dashed=True),
    ]
    steps: tuple[float, float] | None = (band.good * factor, band.critical * factor)
    title = f"{band.metric.partition('.')[0]} {operation}".strip()
    return panel(
        place,
        plain(title, 80),
        lines,
        unit=_unit(base),
        limits=None if band.relative_to or band.unless else steps,
        higher_is_worse=band.higher_is_worse,
        about=f"Limits from: {plain(band.origin, 200)}",
    )


def _log_panels(place: Place) -> Iterator[dict[str, Any]]:
    lines = Line(f"rate(perfmon_source_lines_total{{{_ONLY}}}[$__rate_interval])", "{{log}}")
    yield panel(place, "Lines per second", [lines])
    ages = Line(f"perfmon_source_age_seconds{{{_ONLY}}}", "{{log}}")
    yield panel(place, "Seconds since something was read", [ages], unit="s")


def _polled_panels(place: Place) -> Iterator[dict[str, Any]]:
    title = ""
    for group, name, values, legend in _POLLED:
        if group != title:
            title = group
            yield row(place, group)
        bases = [(area, named(value).base) for area, value in values]
        lines = [
            Line(f"perfmon_{area}_{base}{{{_ONLY}}}", legend if len(bases) == 1 else f"{legend} {base}")
            for area, base in bases
        ]
        yield panel(place, name, lines, unit=_unit(bases[0][1]))


def _unit(base: str) -> str:
    """Grafana's name of the unit that a family's name ends with."""
    return next((unit for ending, unit in _GRAFANA_UNITS.items() if base.endswith(ending)), "short")
