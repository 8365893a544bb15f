"""The TCP connections of a port, and who holds them up."""
