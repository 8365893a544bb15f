"""Findings over time become alerts, and alerts notifications."""
