"""Screens that open over the panes: a chart, and pages (an alert, a trace, the help)."""

__all__: list[str] = []
