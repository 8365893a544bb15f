"""Servers of engines and trainers, by their own metrics."""
