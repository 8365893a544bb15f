"""Dashboard for Kibana 8.8 or newer as saved objects (NDJSON), to be imported under Stack Management or by the API.

The panels are aggregation-based visualizations, whose format has not changed since Kibana 7: each is a table, a line or
a bar chart over one kind of document.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_WIDTH = 48
"""Columns of a dashboard."""
_CORE = "8.8.0"
_VERSIONS = {"index-pattern": "8.0.0", "visualization": "8.5.0", "dashboard": "8.7.0"}
_SOURCE = "kibanaSavedObjectMeta.searchSourceJSON.index"
_CREATED = "2026-01-01T00:00:00.000Z"


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure of a panel."""

    how: str
    """`avg`, `max`, `min`, `sum` or `count`."""
    field: str
    label: str


@dataclass(frozen=True, slots=True)
class Terms:
    """Values of a field, each with its own row, bar or line; the largest by the first figure come first."""

    field: str
    label: str
    most: int = 20


@dataclass(frozen=True, slots=True)
class Panel:
    """One visualization over the documents of one kind."""

    id: str
    title: str
    form: str
    """`table`, `line` (over time) or `horizontal_bar`."""
    kind: str
    metrics: Sequence[Metric]
    terms: Sequence[Terms]
    width: int = 24
    height: int = 14


PANELS = (
    Panel(
        "jobs", "Jobs and their findings", "table", "job",
        [Metric("max", "records", "records"), Metric("max", "job.complete_share", "operations of all ranks"),
         Metric("max", "job.skipped", "lines skipped")],
        [Terms("job.id", "job"), Terms("findings.id", "finding")],
    ),
    Panel(
        "busbw", "Bus bandwidth over time (GB/s, by dump time)", "line", "operation",
        [Metric("avg", "busbw_gbs", "mean bus bandwidth, GB/s")], [Terms("collective", "collective", 8)],
    ),
    Panel(
        "sizes", "Collectives and message sizes", "table", "size",
        [Metric("sum", "kernel_us", "kernel time, µs"), Metric("sum", "ops", "operations"),
         Metric("avg", "busbw_p50_gbs", "median GB/s"), Metric("avg", "transfer_p50_us", "transfer, µs"),
         Metric("avg", "wait_share", "share of waiting")],
        [Terms("comm.type", "type", 4), Terms("collective", "collective", 10), Terms("bytes", "bytes", 20)],
        _WIDTH,
    ),
    Panel(
        "waits", "Ranks that others wait for (share of caused wait)", "horizontal_bar", "wait",
        [Metric("max", "caused_wait_share", "share of caused wait")], [Terms("seat", "rank", 15)],
    ),
    Panel(
        "links", "Transfer time relative to peers", "horizontal_bar", "link",
        [Metric("max", "ratio", "ratio to the median of peers")], [Terms("comm.id", "communicator", 15)],
    ),
    Panel(
        "hosts", "Hosts", "table", "rank",
        [Metric("sum", "records", "records"), Metric("avg", "kernel_mean_us", "mean kernel time, µs"),
         Metric("min", "busbw_gbs", "lowest mean GB/s")],
        [Terms("host", "host", 50), Terms("comm.type", "type", 4)],
    ),
    Panel(
        "waiting", "Waiting by operation over time (µs of all ranks)", "line", "operation",
        [Metric("sum", "wait_us", "wait, µs")], [Terms("comm.type", "type", 4)],
    ),
)  # fmt: skip


def kibana_dashboard(index: str) -> str:
    """Data view, visualizations and dashboard over an index, as one JSON object a line."""
    objects = [_data_view(index), *(_visualization(panel, index) for panel in PANELS), _dashboard(index)]
    return "".join(json.dumps(made, ensure_ascii=False, sort_keys=True) + "\n" for made in objects)


def _object(kind: str, name: str, attributes: dict[str, Any], references: list[dict[str, str]]) -> dict[str, Any]:
    return {
        "id": name,
        "type": kind,
        "attributes": attributes,
        "references": references,
        "coreMigrationVersion": _CORE,
        "typeMigrationVersion": _VERSIONS[kind],
        "managed": False,
        "created_at": _CREATED,
        "updated_at": _CREATED,
    }


def _data_view(index: str) -> dict[str, Any]:
    attributes = {"title": index, "name": f"NCCL Inspector ({index})", "timeFieldName": "@timestamp"}
    return _object("index-pattern", index, attributes, [])


def _search(query: str = "", *, by_reference: bool = False) -> dict[str, str]:
    source: dict[str, Any] = {"query": {"query": query, "language": "kuery"}, "filter": []}
    if by_reference:
        source["indexRefName"] = _SOURCE
    return {"searchSourceJSON": json.dumps(source)}


def _visualization(panel: Panel, index: str) -> dict[str, Any]:
    params = {"table": _table, "line": _chart, "horizontal_bar": _chart}[panel.form](panel)
    state = {"title": panel.title, "type": panel.form, "aggs": _aggregations(panel), "params": params}
    attributes = {
        "title": panel.title,
        "description": "",
        "version": 1,
        "uiStateJSON": "{}",
        "visState": json.dumps(state, ensure_ascii=False),
        "kibanaSavedObjectMeta": _search(f"kind: {panel.kind}", by_reference=True),
    }
    return _object(
        "visualization", f"{index}-{panel.id}", attributes, [{"name": _SOURCE, "type": "index-pattern", "id": index}]
    )


def _aggregations(panel: Panel) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = [
        {
            "id": str(at),
            "enabled": True,
            "type": metric.how,
            "schema": "metric",
            "params": {"field": metric.field, "customLabel": metric.label},
        }
        for at, metric in enumerate(panel.metrics, 1)
    ]
    if panel.form == "line":
        time = {"field": "@timestamp", "interval": "auto", "min_doc_count": 1, "drop_partials": False}
        made.append(_bucket(len(made) + 1, "date_histogram", "segment", time))
    first, later = {"table": ("bucket", "bucket"), "line": ("group", "group")}.get(panel.form, ("segment", "group"))
    for at, terms in enumerate(panel.terms):
        values = {
            "field": terms.field,
            "size": terms.most,
            "order": "desc",
            "orderBy": "1",
            "otherBucket": False,
            "missingBucket": panel.form == "table" and at > 0,  # a job without findings has a row, too
            "missingBucketLabel": "none",
            "customLabel": terms.label,
        }
        made.append(_bucket(len(made) + 1, "terms", later if at else first, values))
    return made


def _bucket(number: int, kind: str, schema: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"id": str(number), "enabled": True, "type": kind, "schema": schema, "params": params}


def _table(_panel: Panel) -> dict[str, Any]:
    return {
        "perPage": 20,
        "showPartialRows": False,
        "showMetricsAtAllLevels": False,
        "showTotal": False,
        "totalFunc": "sum",
        "percentageCol": "",
    }


def _chart(panel: Panel) -> dict[str, Any]:
    is_bar = panel.form == "horizontal_bar"
    form = "histogram" if is_bar else "line"
    labels = {"show": True, "filter": not is_bar, "truncate": 200}
    return {
        "type": form,
        "grid": {"categoryLines": False},
        "categoryAxes": [
            {
                "id": "CategoryAxis-1",
                "type": "category",
                "position": "left" if is_bar else "bottom",
                "show": True,
                "scale": {"type": "linear"},
                "labels": labels,
                "title": {},
                "style": {},
            }
        ],
        "valueAxes": [
            {
                "id": "ValueAxis-1",
                "name": "BottomAxis-1" if is_bar else "LeftAxis-1",
                "type": "value",
                "position": "bottom" if is_bar else "left",
                "show": True,
                "scale": {"type": "linear", "mode": "normal"},
                "labels": labels,
                "title": {"text": panel.metrics[0].label},
                "style": {},
            }
        ],
        "seriesParams": [
            {
                "show": True,
                "type": form,
                "mode": "normal",
                "data": {"id": "1", "label": panel.metrics[0].label},
                "valueAxis": "ValueAxis-1",
                "drawLinesBetweenPoints": True,
                "lineWidth": 2,
                "interpolate": "linear",
                "showCircles": True,
            }
        ],
        "addTooltip": True,
        "addLegend": not is_bar,
        "legendPosition": "right",
        "times": [],
        "addTimeMarker": False,
        "labels": {"show": is_bar},
        "thresholdLine": {"show": False, "value": 1, "width": 1, "style": "full", "color": "#E7664C"},
    }


def _dashboard(index: str) -> dict[str, Any]:
    panels, references = [], []
    x = y = height = 0
    for panel in PANELS:
        if x + panel.width > _WIDTH:
            x, y, height = 0, y + height, 0
        place = {"x": x, "y": y, "w": panel.width, "h": panel.height, "i": panel.id}
        x, height = x + panel.width, max(height, panel.height)
        name = f"panel_{panel.id}"
        panels.append(
            {
                "type": "visualization",
                "panelIndex": panel.id,
                "gridData": place,
                "panelRefName": name,
                "embeddableConfig": {"enhancements": {}},
                "version": _CORE,
            }
        )
        references.append({"name": name, "type": "visualization", "id": f"{index}-{panel.id}"})
    attributes = {
        "title": f"NCCL Inspector ({index})",
        "description": "Collectives of jobs: bandwidth, ranks that others wait for, links. A click on a job filters.",
        "version": 1,
        "panelsJSON": json.dumps(panels),
        "optionsJSON": json.dumps({"useMargins": True, "hidePanelTitles": False}),
        "timeRestore": True,
        "timeFrom": "now-30d",
        "timeTo": "now",
        "refreshInterval": {"pause": True, "value": 0},
        "kibanaSavedObjectMeta": _search(),
    }
    return _object("dashboard", f"{index}-dashboard", attributes, references)
