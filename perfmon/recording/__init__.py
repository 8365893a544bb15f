"""Recordings: the blocks that sources delivered, with their times, in a file that survives a crash."""
