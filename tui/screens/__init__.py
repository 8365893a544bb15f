"""Screens on top of the panes: an alert, a weight update, a chart, the help."""
