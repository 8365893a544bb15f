"""Screens that open over the panes: an alert, a trace, a chart, pages."""

__all__: list[str] = []
