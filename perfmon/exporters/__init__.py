"""Exports: Prometheus pages and rules, Grafana's dashboard, Elasticsearch and Kibana, traces for Perfetto."""

from __future__ import annotations

from .chrome_trace import chrome_trace_events, save_chrome_trace
from .elastic import INDEX, Patience, Uploaded, Uploader
from .kibana import kibana_dashboard
from .nccl_documents import JobDocuments, job_name
from .provisioning import dashboard, render_alert_rules
from .server import Exporter, Server
