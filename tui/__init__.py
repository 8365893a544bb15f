"""The live monitor: Textual panes over the same Snapshot as every report."""
