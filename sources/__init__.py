"""Logs and counters, read as they are: sources, format packs, block scanning."""
