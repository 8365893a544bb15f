"""Machines that are reached over SSH: nothing is installed there, and nothing is left behind."""
