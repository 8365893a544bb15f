"""Panels of a Grafana dashboard, one beside the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
        """The position and number of a panel."""
        if self._x + width > _COLUMNS:
            self._y, self._x, self._height = self._y + self._height, 0, 0
        at = {"x": self._x, "y": self._y, "w": width, "h": height}
        self._x += width
        self._height = max(self._height, height)
        self._count += 1
        return {"id": self._count, "gridPos": at}


def row(place: Place, title: str) -> dict[str, Any]:
    """The head of what follows."""
    return {**place.take(_COLUMNS, 1), "type": "row", "title": title, "collapsed": False, "panels": []}


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
    return {
        **place.take(_COLUMNS if wide else 8, 7),
        "type": "timeseries",
        "title": title,
        "description": about,
        "datasource": _SOURCE,
        "fieldConfig": {
            "defaults": {"unit": unit, "custom": custom, "thresholds": _thresholds(limits, higher_is_worse)},
            "overrides": [_dashed(at) for at, line in enumerate(lines) if line.dashed],
        },
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [_target(at, line.expr, line.legend) for at, line in enumerate(lines)],
    }


def stat(
    place: Place,
    title: str,
    expr: str,
    *,
    unit: str = "short",
    mapped: Mapping[int, tuple[str, str]] | None = None,
    named_by: str = "",
) -> dict[str, Any]:
    """One large value, or with `named_by` one large name; `mapped` says words and colours of values."""
    options = {
        str(value): {"text": text, "color": colour, "index": value} for value, (text, colour) in (mapped or {}).items()
    }
    return {
        **place.take(6, 4),
        "type": "stat",
        "title": title,
        "datasource": _SOURCE,
        "fieldConfig": {
            "defaults": {
                "unit": unit,
                "mappings": [{"type": "value", "options": options}] if options else [],
                "noValue": "none",
                "thresholds": _thresholds(None, True),
            },
            "overrides": [],
        },
        "options": {
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "textMode": "name" if named_by else "value",
            "colorMode": "background" if options else "value",
        },
        "targets": [_target(0, expr, named_by)],
    }


def table(place: Place, title: str, expr: str) -> dict[str, Any]:
    """The labels of what there is now."""
    hidden = dict.fromkeys(("Time", "Value", "__name__", "job"), True)
    return {
        **place.take(12, 8),
        "type": "table",
        "title": title,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": {"noValue": "none"}, "overrides": []},
        "options": {"showHeader": True},
        "transformations": [{"id": "organize", "options": {"excludeByName": hidden}}],
        "targets": [{**_target(0, expr, ""), "format": "table", "instant": True, "range": False}],
    }


def state_timeline(place: Place, title: str, expr: str, titles: Mapping[str, str]) -> dict[str, Any]:
    """State timeline of findings, a row each; `titles` by signature."""
    return {
        **place.take(12, 8),
        "type": "state-timeline",
        "title": title,
        "datasource": _SOURCE,
        "fieldConfig": {
            "defaults": {
                "custom": {"fillOpacity": 80},
                "thresholds": {"mode": "absolute", "steps": _steps([(None, "transparent"), (1, "red")])},
            },
            "overrides": [_renamed(name, shown) for name, shown in sorted(titles.items())],
        },
        "options": {"showValue": "never", "mergeValues": True},
        "targets": [_target(0, expr, "{{signature}}")],
    }


def _target(at: int, expr: str, legend: str) -> dict[str, Any]:
    return {"refId": chr(ord("A") + at), "datasource": _SOURCE, "expr": expr, "legendFormat": legend or "__auto"}


def _thresholds(limits: tuple[float, float] | None, higher_is_worse: bool) -> dict[str, Any]:
    if limits is None:
        return {"mode": "absolute", "steps": _steps([(None, "text")])}
    good, critical = limits
    if higher_is_worse:
        return {"mode": "absolute", "steps": _steps([(None, "green"), (good, "orange"), (critical, "red")])}
    return {"mode": "absolute", "steps": _steps([(None, "red"), (critical, "orange"), (good, "green")])}


def _steps(steps: Sequence[tuple[float | None, str]]) -> list[dict[str, Any]]:
    return [{"value": value, "color": colour} for value, colour in steps]


def _dashed(at: int) -> dict[str, Any]:
    return {
        "matcher": {"id": "byFrameRefID", "options": chr(ord("A") + at)},
        "properties": [{"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [10, 10]}}],
    }


def _renamed(name: str, shown: str) -> dict[str, Any]:
    return {
        "matcher": {"id": "byName", "options": name},
        "properties": [{"id": "displayName", "value": shown}],
    }
