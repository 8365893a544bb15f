"""Which alerts are worth telling, and when: what changed between pictures, held to a rate."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .model import Severity
from .outward import Outward
from .picture import Alert, AlertKey, AlertState, Picture, RunState
from .text import evidence_text
from .units import format_seconds

BURST = 5
"""Messages of all alerts together within `min_interval_s`; the others wait, the worst are told first."""


@dataclass(frozen=True, slots=True)
class Tiding:
    """One thing to be told of an alert; its texts are plain and without secrets."""

    event: str
    """firing or resolved."""
    number: int
    severity: Severity
    signature: str
    title: str
    sentence: str
    identity: Mapping[str, str]
    count: int
    lost_s: float

    @property
    def text(self) -> str:
        """All of it in one line, for chats."""
        mark = "✓ resolved" if self.event == "resolved" else self.severity.label
        told = self.sentence if self.sentence.startswith(self.title) else f"{self.title}: {self.sentence}"
        return f"{mark} {told}"

    @property
    def values(self) -> dict[str, str]:
        """The placeholders of commands and what they stand for."""
        return {
            "event": self.event,
            "severity": self.severity.value,
            "signature": self.signature,
            "title": self.title,
            "sentence": self.sentence,
            "count": str(self.count),
            "lost": format_seconds(self.lost_s),
            "number": str(self.number),
        }


def tiding(alert: Alert, event: str) -> Tiding:
    """What is told of an alert."""
    finding = alert.finding
    return Tiding(
        event,
        alert.number,
        finding.severity,
        evidence_text(finding.signature),
        evidence_text(finding.title),
        evidence_text(finding.sentence),
        {evidence_text(name): evidence_text(value) for name, value in finding.identity.items()},
        alert.count,
        alert.lost_s,
    )


class Tidings:
    """Compares each picture with the one before. What burns when the monitor opens is on the screen: it is not told,
    but its end is."""

    def __init__(self, config: Outward, clock: Callable[[], float]) -> None:
        self._config = config
        self._clock = clock
        self._burning: dict[AlertKey, Severity] | None = None
        """What is known to fire, at its worst; None before the first picture of the present."""
        self._silenced: set[AlertKey] = set()
        self._waiting: dict[AlertKey, Tiding] = {}
        self._told: dict[AlertKey, float] = {}
        self._recent: deque[float] = deque()

    def take(self, picture: Picture) -> list[Tiding]:
        """What is to be told now, the worst first."""
        if picture.state is RunState.LOADING:
            return []
        if self._burning is None:
            self._burning = {a.key: a.finding.severity for a in picture.alerts if a.state is AlertState.FIRING}
        else:
            for alert in picture.alerts:
                self._compare(alert, self._burning)
            there = {alert.key for alert in picture.alerts}
            self._burning = {key: severity for key, severity in self._burning.items() if key in there}
        return self._due()

    def _compare(self, alert: Alert, burning: dict[AlertKey, Severity]) -> None:
        key, severity = alert.key, alert.finding.severity
        if alert.state is AlertState.SILENCED:
            self._silenced.add(key)
            self._waiting.pop(key, None)
        elif alert.state is AlertState.FIRING:
            self._silenced.discard(key)
            if key not in burning or severity.rank > burning[key].rank:
                burning[key] = severity
                self._wait(alert, "firing")
        elif alert.state is AlertState.RESOLVED and burning.pop(key, None) is not None:
            unheard = self._waiting.pop(key, None)
            if key not in self._silenced and (unheard is None or unheard.event == "resolved"):
                self._wait(alert, "resolved")
            self._silenced.discard(key)

    def _wait(self, alert: Alert, event: str) -> None:
        if event in self._config.on and alert.finding.severity.rank >= self._config.min_severity.rank:
            self._waiting[alert.key] = tiding(alert, event)

    def _due(self) -> list[Tiding]:
        now, interval = self._clock(), self._config.min_interval_s
        while self._recent and now - self._recent[0] >= interval:
            self._recent.popleft()
        self._told = {key: then for key, then in self._told.items() if now - then < interval}
        ready = sorted(
            (item for item in self._waiting.items() if item[0] not in self._told),
            key=lambda item: (-item[1].severity.rank, item[1].number),
        )[: max(0, BURST - len(self._recent))]
        for key, _ in ready:
            del self._waiting[key]
            self._told[key] = now
            self._recent.append(now)
        return [told for _, told in ready]
