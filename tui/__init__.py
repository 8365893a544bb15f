"""The live monitor: Textual panes over the same diagnosis as every report."""
