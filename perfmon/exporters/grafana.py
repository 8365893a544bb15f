"""A dashboard for Grafana and its panels."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perfmon.core import plain
from perfmon.rules import Band, Bands, Signature

from .alert_rules import selector
from .metric_names import named

# --- Panels of a Grafana dashboard, one beside the other ---

_COLUMNS = 24
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True, slots=True)
class Line:
    """A query, and what its lines are called."""

    expr: str
    legend: str
    dashed: bool = False


class Place:
    """Position of the next panel: from left to right, then below."""

    def __init__(self) -> None:
        self._x = self._y = self._height = self._count = 0

    def take(self, width: int, height: int) -> dict[str, Any]:
        """Return the position and number of a panel."""
        if self._x + width > _COLUMNS:
            self._y, self._x, self._height = self._y + self._height, 0, 0
        at = {"x": self._x, "y": self._y, "w": width, "h": height}
        self._x += width
        self._height = max(self._height, height)
        self._count += 1
        return {"id": self._count, "gridPos": at}


def row(place: Place, title: str) -> dict[str, Any]:
    """The heading of the panels below it."""
    return {**place.take(_COLUMNS, 1), "type": "row", "title": title, "collapsed": False, "panels": []}


def _panel(
    at: dict[str, Any], kind: str, title: str, defaults: dict[str, Any], options: dict[str, Any],
    targets: list[dict[str, Any]], overrides: Sequence[dict[str, Any]] = (), *, about: str | None = None, **more: Any,
) -> dict[str, Any]:  # fmt: skip
    return {
        **at,
        "type": kind,
        "title": title,
        **({} if about is None else {"description": about}),
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": list(overrides)},
        "options": options,
        **more,
        "targets": targets,
    }


def panel(
    place: Place,
    title: str,
    lines: Sequence[Line],
    *,
    unit: str = "short",
    limits: tuple[float, float] | None = None,
    higher_is_worse: bool = True,
    stacked: bool = False,
    wide: bool = False,
    about: str = "",
) -> dict[str, Any]:
    """Values over time; `limits` are where warning and critical begin, in the unit of the lines."""
    custom: dict[str, Any] = {"drawStyle": "line", "fillOpacity": 60 if stacked else 5, "showPoints": "never"}
    if stacked:
        custom["stacking"] = {"mode": "normal", "group": "A"}
    if limits is not None:
        custom["thresholdsStyle"] = {"mode": "area"}
    defaults = {"unit": unit, "custom": custom, "thresholds": _thresholds(limits, higher_is_worse)}
    options = {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}}
    targets = [_target(at, line.expr, line.legend) for at, line in enumerate(lines)]
    dashed = [_dashed(at) for at, line in enumerate(lines) if line.dashed]
    at = place.take(_COLUMNS if wide else 8, 7)
    return _panel(at, "timeseries", title, defaults, options, targets, dashed, about=about)


def stat(
    place: Place,
    title: str,
    expr: str,
    *,
    unit: str = "short",
    mapped: Mapping[int, tuple[str, str]] | None = None,
    named_by: str = "",
) -> dict[str, Any]:
    """One large value, or with `named_by` one large name; `mapped` has words and colours of values."""
    words = {
        str(value): {"text": text, "color": colour, "index": value} for value, (text, colour) in (mapped or {}).items()
    }
    defaults = {
        "unit": unit,
        "mappings": [{"type": "value", "options": words}] if words else [],
        "noValue": "none",
        "thresholds": _thresholds(None, True),
    }
    options = {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "textMode": "name" if named_by else "value",
        "colorMode": "background" if words else "value",
    }
    return _panel(place.take(6, 4), "stat", title, defaults, options, [_target(0, expr, named_by)])


def table(place: Place, title: str, expr: str) -> dict[str, Any]:
    """The labels of the current series."""
    hidden = dict.fromkeys(("Time", "Value", "__name__", "job"), True)
    changes = [{"id": "organize", "options": {"excludeByName": hidden}}]
    targets = [{**_target(0, expr, ""), "format": "table", "instant": True, "range": False}]
    at = place.take(12, 8)
    return _panel(at, "table", title, {"noValue": "none"}, {"showHeader": True}, targets, transformations=changes)


def state_timeline(place: Place, title: str, expr: str, titles: Mapping[str, str]) -> dict[str, Any]:
    """State timeline of findings, a row each; `titles` by signature."""
    steps = _steps([(None, "transparent"), (1, "red")])
    defaults = {"custom": {"fillOpacity": 80}, "thresholds": {"mode": "absolute", "steps": steps}}
    renamed = [
        {"matcher": {"id": "byName", "options": name}, "properties": [{"id": "displayName", "value": shown}]}
        for name, shown in sorted(titles.items())
    ]
    options = {"showValue": "never", "mergeValues": True}
    targets = [_target(0, expr, "{{signature}}")]
    return _panel(place.take(12, 8), "state-timeline", title, defaults, options, targets, renamed)


def _target(at: int, expr: str, legend: str) -> dict[str, Any]:
    return {"refId": chr(ord("A") + at), "datasource": _SOURCE, "expr": expr, "legendFormat": legend or "__auto"}


def _thresholds(limits: tuple[float, float] | None, higher_is_worse: bool) -> dict[str, Any]:
    steps: list[tuple[float | None, str]] = [(None, "text")]
    if limits is not None:
        good, critical = limits
        low = [(None, "green"), (good, "orange"), (critical, "red")]
        steps = low if higher_is_worse else [(None, "red"), (critical, "orange"), (good, "green")]
    return {"mode": "absolute", "steps": _steps(steps)}


def _steps(steps: Sequence[tuple[float | None, str]]) -> list[dict[str, Any]]:
    return [{"value": value, "color": colour} for value, colour in steps]


def _dashed(at: int) -> dict[str, Any]:
    return {
        "matcher": {"id": "byFrameRefID", "options": chr(ord("A") + at)},
        "properties": [{"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [10, 10]}}],
    }


# --- A dashboard for Grafana: the verdict, the findings, every metric that has limits, logs, GPUs, hosts and queues ---

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
"""Values of pollers, by the names of `sources.polls.reading.Area`."""
_GRAFANA_UNITS = {
    "_seconds": "s", "_ratio": "percentunit", "_bytes": "bytes", "_bytes_per_second": "Bps", "_watts": "watt",
    "_hertz": "hertz", "_celsius": "celsius", "_joules": "joule",
}  # fmt: skip


def dashboard(signatures: Sequence[Signature], bands: Bands) -> str:
    """A file to import in Grafana (schema 39, Grafana 10 or newer); the same data give the same text."""
    place = Place()
    panels = [
        *_answers(place, signatures),
        row(place, "Metrics with thresholds"),
        *(_band_panel(place, bands.table[metric]) for metric in sorted(bands.table)),
        row(place, "Logs"),
        *_log_panels(place),
        *_polled_panels(place),
    ]
    made = {
        "uid": "perfmon",
        "title": "perfmon",
        "description": "Time breakdown of a run. Generated by `perfmon export grafana` from signatures and thresholds.",
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
    yield row(place, "Verdict")
    severities = {0: ("no bottleneck", "green"), 1: ("info", "blue"), 2: ("warning", "orange"), 3: ("critical", "red")}
    yield stat(place, "Verdict", f"max(perfmon_verdict_severity{{{_ONLY}}})", mapped=severities)
    yield stat(place, "Which", f"perfmon_verdict_info{{{_ONLY}}}", named_by="{{title}}")
    yield stat(place, "Lost of the window", f"max(perfmon_verdict_lost_ratio{{{_ONLY}}})", unit="percentunit")
    yield stat(place, "Firing findings", f"sum(perfmon_signature_firing{{{_ONLY}}})")
    causes = Line(f"sum by (cause) (perfmon_ledger_seconds{{{_ONLY}}})", "{{cause}}")
    yield panel(place, "Time breakdown", [causes], unit="s", stacked=True, wide=True)
    yield table(place, "Findings", f'perfmon_finding{{{_ONLY}, state!="resolved"}} == 1')
    titles = {signature.id: plain(signature.title, 80) for signature in signatures if signature.kind != "note"}
    yield state_timeline(
        place, "Findings over time", f"max by (signature) (perfmon_signature_firing{{{_ONLY}}})", titles
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
        Line(f"max by (limit) (perfmon_limit_{base}{{{chosen}}})", "threshold: {{limit}}", dashed=True),
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
        about=f"Thresholds from: {plain(band.origin, 200)}",
    )


def _log_panels(place: Place) -> Iterator[dict[str, Any]]:
    lines = Line(f"rate(perfmon_source_lines_total{{{_ONLY}}}[$__rate_interval])", "{{log}}")
    yield panel(place, "Lines per second", [lines])
    ages = Line(f"perfmon_source_age_seconds{{{_ONLY}}}", "{{log}}")
    yield panel(place, "Seconds since the last read", [ages], unit="s")


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
