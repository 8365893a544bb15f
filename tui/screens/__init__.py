"""What opens over the panes: an alert, a trace, a chart, the help."""
