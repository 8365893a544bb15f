"""A snapshot in, text or files out: the summary, SUMMARY.md, the JSON document, statistics, plots."""
