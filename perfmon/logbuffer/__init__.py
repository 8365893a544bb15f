"""The newest lines of all logs in a ring of bytes, with search and filters."""
