"""Slurm: the user's own jobs, and their nodes."""
