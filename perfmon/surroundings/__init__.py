"""The machines around a run: what pollers saw, put together by host, for screens and pages."""

from __future__ import annotations

from .grouping import Host, Surroundings
from .judging import level_of
from .wording import state_of, throttle_words, verdict_words

__all__ = ["Host", "Surroundings", "level_of", "state_of", "throttle_words", "verdict_words"]
