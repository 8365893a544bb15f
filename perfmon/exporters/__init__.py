"""What perfmon measures, for the monitoring of a site: pages that Prometheus reads, its rules, Grafana's dashboard."""
