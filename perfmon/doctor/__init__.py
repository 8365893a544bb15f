"""Checks of the environment for `perfmon doctor`."""
