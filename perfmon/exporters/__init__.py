"""Exports for a site's monitoring: Prometheus pages and rules, Grafana's dashboard."""

from __future__ import annotations

from .alert_rules import render_alert_rules
from .grafana import dashboard
from .server import Exporter, Server
