"""Immutable state that the screen, reports and exporters read."""
