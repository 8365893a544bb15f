"""Exports for a site's monitoring: Prometheus pages and rules, Grafana's dashboard."""
