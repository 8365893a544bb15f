"""Latest readings by host: links, GPUs, disks, processes and queues, with their levels and words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, isfinite, nan

from perfmon.core import format_seconds
from perfmon.diagnosis import MetricStats
from perfmon.sources.pollers import Area, Reading
from perfmon.sources.remote import HostState, Phase
from perfmon.store import Seen
from perfmon.textgraphics import compact, compact_seconds

from .board import Level
from .state import MonitorState, RunState

# --- Latest readings by host: its link, GPUs, disks, processes and queues ---

_MISSED = 3
"""Missed polls after which a reading is stale."""
_PATIENCE_S, _UNKNOWN_S = 3.0, 15.0
"""Least age of a stale reading; and the age if its interval is unknown."""
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
    """The connection; None for this machine, and in a recording."""
    things: Mapping[Area, tuple[Seen, ...]] = field(default_factory=dict)

    def of(self, *areas: Area) -> tuple[Seen, ...]:
        """Latest readings of these kinds, in their order."""
        return tuple(seen for area in areas for seen in self.things.get(area, ()))

    @property
    def whole(self) -> Seen | None:
        """The machine itself: processor, memory, load."""
        return next(iter(self.of(Area.HOST)), None)

    def figure(self, key: str) -> float | None:
        """A value of the machine itself."""
        return None if self.whole is None else value(self.whole, key)

    @property
    def memory_pct(self) -> float | None:
        """Share of its memory that is in use, in %."""
        part = share(self.figure("mem_used_mb"), self.figure("mem_total_mb"))
        return None if part is None else 100.0 * part

    def total(self, area: Area, key: str) -> float:
        """Sum of a value over all things of an area that have it."""
        return sum(known for seen in self.of(area) if (known := value(seen, key)) is not None)

    def users(self, gpu: Seen) -> list[Seen]:
        """The processes that use a GPU."""
        names = {gpu.reading.name, gpu.reading.words.get("uuid", gpu.reading.name)}
        return [one for one in self.of(Area.PROCESS) if names & set(one.reading.words.get("gpu", "").split("+"))]

    @property
    def is_known(self) -> bool:
        """True if the machine itself is known, not only a queue that it serves."""
        return self.link is not None or any(area in self.things for area in _MACHINE)


@dataclass(frozen=True)
class HostOverview:
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
    ) -> HostOverview:
        """Group readings by host; hosts with a link come first, in their order."""
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
    def at(cls, picture: MonitorState) -> HostOverview:
        """At a picture."""
        over, slack_s = picture.state is RunState.ENDED, _BEHIND_S * (picture.speed or 0.0)
        return cls.of(picture.seen, picture.links, picture.present, over=over, slack_s=slack_s)

    def of_area(self, *areas: Area) -> Iterator[tuple[Host, Seen]]:
        """Everything of these kinds, with its host."""
        return ((host, seen) for host in self.hosts for seen in host.of(*areas))

    def age_s(self, seen: Seen) -> float:
        """Seconds since it was seen."""
        return max(0.0, self.now - seen.at)

    def stale(self, seen: Seen) -> bool:
        """True if several polls in a row were missed."""
        patience = _UNKNOWN_S if seen.every_s is None else max(_PATIENCE_S, _MISSED * seen.every_s)
        if seen.reading.area is Area.POLLER:  # sent when it changes, and now and then
            patience = _SELDOM_S
        return not self.over and self.age_s(seen) > patience + self.slack_s

    @cached_property
    def several(self) -> bool:
        """True if there is more than one host: readings need its name."""
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
    """Names without user, port and domain, if they stay distinct."""
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


# --- Levels of polled values, by the run's thresholds or a few that always hold ---

_LIMITS: Mapping[tuple[Area, str], tuple[float, float]] = {
    (Area.GPU, "temp_c"): (83.0, 90.0),  # where data-centre GPUs begin to slow down, and where they have to
    (Area.HOST, "cpu_pct"): (90.0, inf),  # a host that is busy, or has full memory, is no fault: findings decide that
    (Area.HOST, "mem_pct"): (90.0, inf),
    (Area.HOST, "iowait_pct"): (20.0, inf),
    (Area.HOST, "psi_mem_pct"): (10.0, inf),
    (Area.HOST, "psi_io_pct"): (20.0, inf),
    (Area.DISK, "used_pct"): (90.0, 97.0),
    (Area.QUEUE, "kv_usage_pct"): (80.0, 90.0),  # the band kv_usage
    (Area.SOCKET, "recv_q_share_pct"): (50.0, inf),
}
"""Values at which warning and critical begin, in the unit of the metric; more is worse. Critical is what some signature
judges as well: no host is critical in a run that is healthy."""
_METRICS: Mapping[tuple[Area, str], str] = {
    (Area.QUEUE, "kv_usage_pct"): "kv_usage",
    (Area.GPU, "temp_c"): "gpu_temp_c",
    (Area.DISK, "used_pct"): "disk_used_pct",
    (Area.HOST, "cpu_pct"): "cpu_pct",
}
"""Metrics whose bands a value is judged by."""
_WORDS: Mapping[tuple[Area, str], Mapping[str, Level]] = {
    (Area.GPU, "state"): {"lost": Level.CRITICAL},
    (Area.SOCKET, "verdict"): dict.fromkeys(("producer", "network", "consumer", "upstream"), Level.WARNING),
    (Area.POLLER, "state"): {"failed": Level.CRITICAL, "stale": Level.WARNING},
    (Area.JOB, "state"): dict.fromkeys(
        ("FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "CANCELLED", "PREEMPTED"), Level.CRITICAL
    )
    | dict.fromkeys(("PENDING", "SUSPENDED", "REQUEUED"), Level.WARNING),
}
_SICK_NODES = ("down", "fail", "drain", "not_respond")
_HARD = ("thermal", "slowdown", "brake")
"""Reasons for a GPU's slowdown that need a fix; a power cap is usual."""


def level_of(area: Area, key: str, value: float, metrics: Mapping[str, MetricStats] | None = None) -> Level:
    """The level of a value; NONE where it has no limits."""
    good, critical = _limits(area, key, metrics or {})
    if good is None or critical is None:
        return Level.NONE
    if critical < good:
        value, good, critical = -value, -good, -critical
    return Level.CRITICAL if value >= critical else Level.WARNING if value >= good else Level.GOOD


def level_within(known: MetricStats | None, value: float) -> Level:
    """The level of a value by the thresholds of a metric; NONE where it has none."""
    if known is None or known.good is None or known.critical is None:
        return Level.NONE
    good, critical = known.good, known.critical
    if critical < good:
        value, good, critical = -value, -good, -critical
    return Level.CRITICAL if value > critical else Level.WARNING if value >= good else Level.GOOD


def metric_of(key: str) -> str:
    """The metric that holds the values of a queue which have this key."""
    return _METRICS.get((Area.QUEUE, key), key)


def _limits(area: Area, key: str, metrics: Mapping[str, MetricStats]) -> tuple[float | None, float | None]:
    known = metrics.get(_METRICS.get((area, key), ""))
    if known is not None and known.good is not None:
        return known.good, known.critical
    return _LIMITS.get((area, key), (None, None))


def worst_of(reading: Reading, metrics: Mapping[str, MetricStats] | None = None) -> Level:
    """Return the worst level of all its values."""
    area = reading.area
    levels = [level_of(area, key, value, metrics) for key, value in reading.values.items() if _judged(area, key)]
    levels += [_WORDS.get((area, key), {}).get(word, Level.NONE) for key, word in reading.words.items()]
    if area is Area.GPU:
        levels.append(throttle_level(reading))
    if area is Area.NODE and any(sick in reading.words.get("state", "").lower() for sick in _SICK_NODES):
        levels.append(Level.CRITICAL)
    return max(levels, default=Level.NONE)


def _judged(area: Area, key: str) -> bool:
    return (area, key) in _LIMITS or (area, key) in _METRICS


def throttle_level(reading: Reading) -> Level:
    """Level of a GPU's slowdown: by heat or a fault, or by its power limit."""
    why = reading.words.get("throttle", "").lower()
    if not why or why in ("none", "-"):
        return Level.WARNING if reading.values.get("throttled") else Level.NONE
    if any(word in why for word in _HARD):
        return Level.CRITICAL if "hw" in why or "brake" in why else Level.WARNING
    return Level.WARNING if reading.values.get("throttled") else Level.NONE


# --- What pollers report, in words that need no manual ---

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
    """Reasons for which a GPU does not run at its full clock; "" if it does, or is idle."""
    reasons = [why for why in _reasons(reading) if why not in ("", "none", "_")]
    words = dict.fromkeys(_reason(why) for why in reasons)
    words.pop("idle", None)
    return " + ".join(words) or ("throttled" if reading.values.get("throttled") else "")


def _reasons(reading: Reading) -> list[str]:
    return reading.words.get("throttle", "").lower().replace("-", "_").split("+")


def _reason(why: str) -> str:
    return next((words for part, words in _REASONS if part in why), why.replace("_", " "))


def verdict_words(reading: Reading) -> str:
    """Meaning of the state of a socket for the time spent."""
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
    """Offset of its clock from this one's, and the uncertainty: `+3 ms ± 1`; "" while unknown."""
    clock = link.clock
    if clock is None:
        return ""
    if abs(clock.seconds) < 10.0:
        return f"{1000 * clock.seconds:+.0f} ms ± {max(1.0, 1000 * clock.uncertainty_s):.0f}"
    return f"{'-' if clock.seconds < 0 else '+'}{format_seconds(abs(clock.seconds))} ± {clock.uncertainty_s:.1f} s"


# --- Polled numbers as people read them, the same on the screen and on pages; "" for what is not known ---

_DIGITS = frozenset("0123456789")
_MOST_CORES = 256


def value(seen: Seen, key: str) -> float | None:
    """Return a finite value of a reading, if it has one."""
    number = seen.reading.values.get(key)
    return number if number is not None and isfinite(number) else None


def cores(seen: Seen, key: str) -> list[float]:
    """Of every core, or of some neighbours together, a percentage; NaN for one that is off. Nothing where untold."""
    return [
        10.0 * int(sign) + 5.0 if sign in _DIGITS else nan for sign in seen.reading.words.get(key, "")[:_MOST_CORES]
    ]


def percent(share: float | None) -> str:
    """`31%`, "" for what is not known."""
    return "" if share is None else f"{share:.0f}%"


def share(part: float | None, whole: float | None) -> float | None:
    """`part` of `whole`, 0 to 1."""
    return part / whole if part is not None and whole else None


def gib(mb: float | None) -> str:
    """Mebibytes as gibibytes, without a unit: `71`, `0.4`."""
    return "" if mb is None else f"{mb / 1024:.0f}" if mb >= 10_000 else f"{mb / 1024:.1f}"


def rate(mb_s: float | None) -> str:
    """`412 MB/s`, `1.1 GB/s`."""
    if mb_s is None:
        return ""
    if mb_s < 0.095:  # hundredths of a megabyte are no figures that anyone compares
        return f"{mb_s:.1f} MB/s"
    return f"{mb_s / 1000:.1f} GB/s" if mb_s >= 999.5 else f"{compact(mb_s, 4)} MB/s"


def size(gb: float | None) -> str:
    """`812 GB`, `4.1 TB`."""
    return "" if gb is None else f"{gb / 1000:.1f} TB" if gb >= 999.5 else f"{compact(gb, 4)} GB"


def size_of_bytes(count: float | None) -> str:
    """`3.9 MB`, `0`."""
    if not count:
        return "" if count is None else "0"
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{compact(count / factor, 4)} {unit}"
    return f"{count:.0f} B"


def uptime(seconds: float | None) -> str:
    """`2h 05m`; whole minutes, once it is one."""
    if seconds is None:
        return ""
    if seconds < 60:
        return age_words(seconds)
    return f"{seconds // 60:.0f}m" if seconds < 3600 else compact_seconds(seconds, 7)


def labelled(label: str, text: str) -> str:
    """`cpu 31%`; "" without text."""
    return f"{label} {text}" if text else ""
