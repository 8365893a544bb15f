"""What was polled, by host: each with its link, its GPUs, disks, processes and queues, and how old each answer is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from perfmon.machines import Seen
from perfmon.picture import Picture, RunState
from perfmon.sources.polls.reading import Area
from perfmon.sources.remote.states import HostState

_MISSED = 3
"""Polls that have to fail to come before an answer counts as old."""
_PATIENCE_S, _UNKNOWN_S = 3.0, 15.0
"""The least time that is waited, and how long where nobody knows how often it is polled."""
_SELDOM_S = 120.0
_BEHIND_S = 1.5
"""Of this machine's time: what a replay may be behind."""
_MACHINE = (Area.HOST, Area.DISK, Area.NIC, Area.GPU, Area.PROCESS)


@dataclass(frozen=True, slots=True)
class Host:
    """A machine and what was seen there."""

    name: str
    short: str
    """Without user, port and the domain that all share."""
    link: HostState | None
    """How it is reached; None for this machine, and where a recording does not tell."""
    things: Mapping[Area, tuple[Seen, ...]] = field(default_factory=dict)

    def of(self, *areas: Area) -> tuple[Seen, ...]:
        """What there is of these kinds, in their order."""
        return tuple(seen for area in areas for seen in self.things.get(area, ()))

    @property
    def whole(self) -> Seen | None:
        """The machine itself: processor, memory, load."""
        return next(iter(self.of(Area.HOST)), None)

    @property
    def told(self) -> bool:
        """Something is known of the machine, not only of a queue that it serves."""
        return self.link is not None or any(area in self.things for area in _MACHINE)


@dataclass(frozen=True)
class Surroundings:
    """All hosts at one moment."""

    hosts: tuple[Host, ...]
    now: float
    """The moment, on the axis that `Seen.at` is on."""
    over: bool = False
    """The run has ended: nothing is late any more."""
    slack_s: float = 0.0
    """By how much more answers may be behind: a replay that goes fast hands over much at a time."""

    @classmethod
    def of(
        cls,
        seen: Iterable[Seen],
        links: Iterable[HostState] = (),
        now: float = 0.0,
        *,
        over: bool = False,
        slack_s: float = 0.0,
    ) -> Surroundings:
        """Groups them; hosts that are reached over a link come first, in their order."""
        by_host: dict[str, dict[Area, list[Seen]]] = {}
        linked = {link.name: link for link in links}
        for name in linked:
            by_host[name] = {}
        for one in seen:
            name = one.host if one.host in by_host else next((n for n in linked if bare(n) == one.host), one.host)
            by_host.setdefault(name, {}).setdefault(one.reading.area, []).append(one)
        short = short_names(by_host)
        hosts = tuple(
            Host(name, short[name], linked.get(name), {area: _ordered(area, held) for area, held in things.items()})
            for name, things in by_host.items()
        )
        return cls(hosts, now, over, slack_s)

    @classmethod
    def at(cls, picture: Picture) -> Surroundings:
        """At a picture."""
        over, slack_s = picture.state is RunState.ENDED, _BEHIND_S * (picture.speed or 0.0)
        return cls.of(picture.seen, picture.links, picture.asked, over=over, slack_s=slack_s)

    def of_area(self, *areas: Area) -> Iterator[tuple[Host, Seen]]:
        """Everything of these kinds, with its host."""
        return ((host, seen) for host in self.hosts for seen in host.of(*areas))

    def age_s(self, seen: Seen) -> float:
        """Seconds since it was seen."""
        return max(0.0, self.now - seen.at)

    def stale(self, seen: Seen) -> bool:
        """Several polls in a row did not answer: nobody knows how it is now."""
        patience = _UNKNOWN_S if seen.every_s is None else max(_PATIENCE_S, _MISSED * seen.every_s)
        if seen.reading.area is Area.POLLER:  # told when it changes, and now and then
            patience = _SELDOM_S
        return not self.over and self.age_s(seen) > patience + self.slack_s

    @cached_property
    def several(self) -> bool:
        """There is more than one host: things have to say whose they are."""
        return len(self.hosts) > 1

    @cached_property
    def gpus_given(self) -> bool:
        """The run was given some of the GPUs only."""
        return len({seen.reading.words.get("mine", "yes") == "yes" for _, seen in self.of_area(Area.GPU)}) > 1


def bare(name: str) -> str:
    """The host of an address: without user and port."""
    host = name.rpartition("@")[2]
    return host.removeprefix("[").partition("]")[0] if host.startswith("[") else host.partition(":")[0]


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Names without user, port and domain, where that tells them apart."""
    known = list(names)
    for shorten in (lambda name: _first_label(bare(name)), bare):
        short = {name: shorten(name) for name in known}
        if len(set(short.values())) == len(known):
            return short
    return {name: name for name in known}


def _first_label(host: str) -> str:
    label = host.partition(".")[0]
    return host if not label or label.isdigit() else label


def _ordered(area: Area, held: list[Seen]) -> tuple[Seen, ...]:
    if area is Area.PROCESS:
        return tuple(sorted(held, key=_busy))
    return tuple(sorted(held, key=lambda seen: _by_number(seen.reading.name)))


def _busy(seen: Seen) -> tuple[float, float, str]:
    """Those on GPUs first, then the busiest."""
    values = seen.reading.values
    return -values.get("gpu_mem_mb", 0.0), -values.get("cpu_pct", 0.0), seen.reading.name


def _by_number(name: str) -> tuple[int, str]:
    return (int(name), name) if name.isdecimal() and len(name) < 10 else (1 << 31, name)
