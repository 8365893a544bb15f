"""Logs followed as they grow: rotation, truncation, pipes, notifications of the kernel."""
