"""Exports for a site's monitoring: Prometheus pages and rules, Grafana's dashboard, Elasticsearch and Kibana."""

from __future__ import annotations

from .alert_rules import render_alert_rules
from .elastic import INDEX, Patience, Uploaded, Uploader
from .grafana import dashboard
from .kibana import kibana_dashboard
from .nccl_documents import JobDocuments, job_name
from .server import Exporter, Server
