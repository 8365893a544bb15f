"""What there is to say of a host at one moment: plain values, for whoever shows them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """An estimate of how far the clock of a machine is from this one's."""

    seconds: float
    """What that clock shows more than this one."""
    uncertainty_s: float
    round_trip_s: float


class Phase(StrEnum):
    """What becomes of a host."""

    CONNECTING = "connecting"
    LIVE = "live"
    STALE = "stale"
    """Connected, but it has not answered for a while."""
    RECONNECTING = "reconnecting"
    REFUSED = "refused"
    """It is not tried any more: its key has changed, or the login does not work."""


@dataclass(frozen=True, slots=True)
class HostState:
    """A host at one moment."""

    name: str
    phase: Phase
    age_s: float | None
    """Seconds since it answered last."""
    reconnects: int
    """How often a lost connection was made again."""
    attempts: int
    """How often that failed since it was lost."""
    retry_s: float | None
    """Seconds until the next attempt."""
    error: str
    """Why it is not connected; one line."""
    logs: int
    clock: ClockOffset | None
