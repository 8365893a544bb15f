"""Recordings: what sources handed over, with the moments at which they did, in a file that survives a crash.

Nothing is imported here: whoever only wants to know whether a file is a recording asks `mark`.
"""
