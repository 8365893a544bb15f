"""What pollers report, in words that need no manual."""

from __future__ import annotations

from collections.abc import Mapping

from perfmon.sources.polls.reading import Reading
from perfmon.sources.remote.states import HostState, Phase
from perfmon.units import format_seconds

_REASONS: tuple[tuple[str, str], ...] = (
    ("power_brake", "external power brake"),
    ("hw_thermal", "thermal (hardware)"),
    ("sw_thermal", "thermal"),
    ("thermal", "thermal"),
    ("hw_power", "external power brake"),
    ("power_cap", "power cap"),
    ("hw_slowdown", "hardware slowdown"),
    ("sync_boost", "sync boost"),
    ("clocks_setting", "user clock limit"),
    ("app_clock", "user clock limit"),
    ("display", "display clocks"),
    ("idle", "idle"),
)
"""Parts of the names of reasons, as drivers give them; the first that fits counts."""
_VERDICTS: Mapping[str, str] = {
    "producer": "waiting for the producer",
    "network": "network-limited",
    "consumer": "consumer too slow",
    "upstream": "waiting for upstream",
    "healthy": "healthy",
    "idle": "idle",
}
_PHASES: Mapping[Phase, tuple[str, str]] = {
    Phase.LIVE: ("good", "live"),
    Phase.STALE: ("stale", "stale"),
    Phase.CONNECTING: ("lagging", "connecting"),
    Phase.RECONNECTING: ("critical", "reconnecting"),
    Phase.REFUSED: ("critical", "refused"),
}


def throttle_words(reading: Reading) -> str:
    """Why a GPU does not run at its full clock; "" when it does, or has nothing to do."""
    reasons = [why for why in _reasons(reading) if why not in ("", "none", "_")]
    told = dict.fromkeys(_reason(why) for why in reasons)
    told.pop("idle", None)
    return " + ".join(told) or ("throttled" if reading.values.get("throttled") else "")


def _reasons(reading: Reading) -> list[str]:
    return reading.words.get("throttle", "").lower().replace("-", "_").split("+")


def _reason(why: str) -> str:
    return next((words for part, words in _REASONS if part in why), why.replace("_", " "))


def verdict_words(reading: Reading) -> str:
    """What the state of a socket says about where the time goes."""
    verdict = reading.words.get("verdict", "")
    return _VERDICTS.get(verdict, verdict)


def state_of(link: HostState) -> tuple[str, str]:
    """(name of a sign, words) for how a host is reached: `✓ live`, `? stale 12 s`, `✗ reconnecting 3`."""
    sign, word = _PHASES[link.phase]
    if link.phase is Phase.STALE and link.age_s is not None:
        word += f" {age_words(link.age_s)}"
    if link.phase is Phase.RECONNECTING and link.attempts:
        word += f" {link.attempts}"
    return sign, word


def age_words(seconds: float) -> str:
    """Whole seconds, so that it changes once a second at most: `12 s`, `3m 20s`."""
    return f"{int(seconds)} s" if seconds < 100 else format_seconds(float(int(seconds)))


def clock_words(link: HostState) -> str:
    """How far its clock is from this one's, and how sure that is: `+3 ms ± 1`; "" while nobody knows."""
    clock = link.clock
    if clock is None:
        return ""
    if abs(clock.seconds) < 10.0:
        return f"{1000 * clock.seconds:+.0f} ms ± {max(1.0, 1000 * clock.uncertainty_s):.0f}"
    return f"{'-' if clock.seconds < 0 else '+'}{format_seconds(abs(clock.seconds))} ± {clock.uncertainty_s:.1f} s"
