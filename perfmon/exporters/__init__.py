"""Exports for a site's monitoring: Prometheus pages and rules, Grafana's dashboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from .alert_rules import render_alert_rules
    from .grafana import dashboard
    from .server import Exporter, Server

__getattr__ = lazy_face(
    __name__,
    {
        "alert_rules": "render_alert_rules",
        "grafana": "dashboard",
        "server": "Exporter,Server",
    },
)
