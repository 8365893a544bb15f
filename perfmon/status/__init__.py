"""The state file and the status line."""
