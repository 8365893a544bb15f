"""Signatures, bands and the engine that turns observations into findings."""
