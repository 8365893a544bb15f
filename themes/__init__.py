"""Colour themes as data."""
