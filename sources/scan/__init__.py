"""The scanner of blocks, and its search for literals."""
