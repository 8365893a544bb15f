"""Logs in the shapes that people report, each with what a careful reader says of it."""
