"""What was observed, laid out on one time axis: weight updates, other spans, metrics, alert ticks.

A board is made twice a second for days, so each sample is looked at once: `buckets` remembers what it saw.
"""

from __future__ import annotations

from .builder import BoardBuilder

__all__ = ["BoardBuilder"]
