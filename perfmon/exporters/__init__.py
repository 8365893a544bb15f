"""Export to the monitoring of a site: pages for Prometheus, alert rules, a Grafana dashboard."""
