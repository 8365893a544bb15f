"""Reports of a diagnosis: text, Markdown, JSON, tables, plots."""
