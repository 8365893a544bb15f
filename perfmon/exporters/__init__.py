"""Exports for a site's monitoring: Prometheus pages and rules, Grafana's dashboard, Elasticsearch and Kibana."""

from __future__ import annotations

from .elastic import INDEX, Patience, Uploaded, Uploader
from .kibana import kibana_dashboard
from .nccl_documents import JobDocuments, job_name
from .provisioning import dashboard, render_alert_rules
from .server import Exporter, Server
