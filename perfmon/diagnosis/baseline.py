"""Baselines: limits from the healthy start of a run, or learned from a healthy run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from perfmon.clocks import Alignment
from perfmon.core import FIGURES, Severity, TimeBase, counted, format_seconds, median, metric_unit, percentile, plain
from perfmon.rules import CALIBRATED, HIGHER, LEARNED, Band, Bands, Track, View, bands_of
from perfmon.store import Store

from .assessment import RuleSet, judge, view_of
from .result import Diagnosis

# --- Limits that are learned from a healthy run: what is usual there is good, and a margin beyond it ---
#
# The built-in limits are those of one model on one machine. A limit that is learned lies a quarter beyond the larger of
# a high quantile and five robust deviations from the median, so that a first fill or a slow step in a healthy run does
# not move it. Critical stands to good as it does in the built-in limits. Shares that end at 100 % are the same on every
# machine: of metrics that have limits they are only ever widened. Limits are per metric; of several groups (engines,
# queues) the one that needs most room decides.

FEWEST = 10
"""Samples of a metric with fewer of which nothing is learned about it."""
_MARGIN = 0.25
_DEVIATIONS = 5.0
_MAD_TO_SIGMA = 1.4826
_MANY, _HIGH, _LOWER = 40, 0.95, 0.90
"""The quantile, and the one for fewer samples than that."""
_RATIO = 2.0
"""Critical to good, of metrics that have no built-in limits."""
_BARE = re.compile(r"[A-Za-z0-9_-]+")
"""Keys that TOML accepts without quotes."""
_LEAST = {"ms": 50.0, "s": 0.05, "%": 5.0}
"""No limit is learned below this: there a scheduler's jitter is."""


@dataclass(frozen=True, slots=True)
class Learned:
    """The limits of one metric, and what they rest on; figures in its unit."""

    band: Band
    count: int
    groups: int
    quantiles: Mapping[str, float]
    built_in: Band | None


@dataclass(frozen=True, slots=True)
class Calibration:
    """The limits that were learned from a run."""

    learned: tuple[Learned, ...]
    too_few: Mapping[str, int]
    """Samples of metrics of which nothing was learned, though they have a good direction."""
    held_already: tuple[str, ...] = ()
    """Metrics with enough samples, of which the learned limits are those in force."""

    def applied(self, bands: Bands) -> Bands:
        """`bands` with the learned limits in place."""
        learned = {held.band.metric: held.band for held in self.learned}
        return replace(bands, table={**bands.table, **learned})


def learn(tracks: Mapping[str, Track], bands: Bands, origin: str, *, capped: bool = False) -> Calibration:
    """Limits of all metrics that have a good direction and enough samples.

    `bands` are the limits in force, relative ones not worked out; `capped`: no limit goes beyond the critical one of
    these. Metrics whose limits are relative keep them.
    """
    learned, too_few, held_already = [], dict[str, int](), []
    for metric, track in sorted(tracks.items()):
        known, better = bands.get(metric), bands.direction(metric)
        if not better or (known is not None and known.relative_to):
            continue
        if len(track) < FEWEST:
            too_few[metric] = len(track)
            continue
        groups = _groups(track)
        band = _band(metric, groups, better == HIGHER, known)
        if band is None:
            continue
        if capped and known is not None:
            band = _capped(band, known)
        if known is not None and (band.good, band.critical) == (known.good, known.critical):
            held_already.append(metric)
            continue
        band = replace(band, origin=f"{origin}, n={len(track)}")
        if known is not None:
            band = replace(band, unless=known.unless, judged_by=known.judged_by, only_with=known.only_with)
        learned.append(Learned(band, len(track), len(groups), _quantiles(track.values), known))
    return Calibration(tuple(learned), too_few, tuple(held_already))


def uncalibrated(bands: Bands, built_in: Bands) -> Bands:
    """`bands` as they were before any calibration.

    A new one is not measured by the one before: else what lies in it already would be missing in the file that
    replaces it, and shares, which are only ever widened, would never be narrowed again.
    """
    older = {metric for metric, band in bands.table.items() if band.origin.startswith(CALIBRATED)}
    table = {metric: built_in.get(metric) if metric in older else band for metric, band in bands.table.items()}
    return replace(bands, table={metric: band for metric, band in table.items() if band is not None})


def tightest(bands: Bands) -> Bands:
    """The narrowest limits that may be learned: beyond them the lines of samples are kept, should they turn out bad."""
    return replace(bands, table={metric: _narrow(band) for metric, band in bands.table.items()})


def _narrow(band: Band) -> Band:
    unit = metric_unit(band.metric)
    if unit == "%" or band.relative_to or not band.higher_is_worse:
        return band
    return replace(band, good=min(band.good, _LEAST.get(unit, band.good)))


def _groups(track: Track) -> list[list[float]]:
    """The values of each group that has enough of them; all together where none has."""
    groups: dict[str, list[float]] = {}
    for at, value in enumerate(track.values):
        groups.setdefault(track.group(at), []).append(value)
    return [values for values in groups.values() if len(values) >= FEWEST] or [list(track.values)]


def _band(metric: str, groups: Iterable[Sequence[float]], low_is_bad: bool, known: Band | None) -> Band | None:
    """The limits; None where nothing lies beyond what is usual."""
    unit = metric_unit(metric)
    good = min(map(_floor, groups)) if low_is_bad else max(map(_edge, groups))
    if low_is_bad and good <= 0:
        return None
    if not low_is_bad:
        good = max(good, _LEAST.get(unit, 0.0))
        if good <= 0:
            return None
    critical = good * _ratio(known, low_is_bad)
    if unit == "%":
        good, critical = min(good, 100.0), min(critical, 100.0)
        if known is not None:
            widest = min if low_is_bad else max
            good, critical = widest(good, known.good), widest(critical, known.critical)
    return Band(metric, _short(good), _short(critical), higher_is_worse=not low_is_bad)


def _edge(values: Sequence[float]) -> float:
    """The end of the usual range, with a margin; large values are bad."""
    ordered = sorted(values)
    middle = median(ordered)
    deviation = _MAD_TO_SIGMA * median([abs(value - middle) for value in ordered])
    high = percentile(ordered, _usual(len(ordered)))
    edge = max(high, middle + _DEVIATIONS * deviation)
    return edge + _MARGIN * abs(edge)


def _floor(values: Sequence[float]) -> float:
    """The same where small values are bad: half as much is as far from the usual as twice as much. 0 for no limit."""
    inverse = [1.0 / value for value in values if value > 0]
    return 1.0 / _edge(inverse) if len(inverse) >= _usual(len(values)) * len(values) else 0.0


def _usual(count: int) -> float:
    """The share of so many samples that is usual whatever they are."""
    return _HIGH if count >= _MANY else _LOWER


def _ratio(known: Band | None, low_is_bad: bool) -> float:
    if known is not None and known.good > 0 and known.critical > 0:
        return known.critical / known.good
    return 1.0 / _RATIO if low_is_bad else _RATIO


def _capped(band: Band, known: Band) -> Band:
    closest = min if band.higher_is_worse else max
    return replace(band, good=closest(band.good, known.critical), critical=closest(band.critical, known.critical))


def _short(value: float) -> float:
    return float(f"{value:.3g}")


def _quantiles(values: Sequence[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {f"p{share * 100:g}": percentile(ordered, share) for share in (0.05, 0.5, 0.95, 0.99)}


def as_toml(calibration: Calibration, heading: Sequence[str]) -> str:
    """A file that `--bands` reads; `heading` are its first lines, as comments."""
    lines = [*(f"# {plain(line, 200)}" for line in heading), "schema = 1", ""]
    for held in calibration.learned:
        lines += [*_entry(held), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _entry(held: Learned) -> Iterable[str]:
    band, known = held.band, held.built_in
    unit = metric_unit(band.metric)
    figures = ", ".join(f"{name} {value:.4g}" for name, value in held.quantiles.items())
    groups = f"; {held.groups} groups" if held.groups > 1 else ""
    yield f"[band.{band.metric if _BARE.fullmatch(band.metric) else _quoted(band.metric)}]"
    yield f"good = {band.good:g}" + (f"  # instead of {known.good:g}" if known is not None else "")
    yield f"critical = {band.critical:g}" + (f"  # instead of {known.critical:g}" if known is not None else "")
    if not band.higher_is_worse:
        yield "higher_is_worse = false"
    for key, names in band.names:
        if names:
            yield f"{key} = [{', '.join(map(_quoted, names))}]"
    yield f"origin = {_quoted(band.origin)}"
    yield f"note = {_quoted(f'{figures} {unit}'.rstrip() + groups)}"


def _quoted(text: str) -> str:
    """A TOML string: JSON's escapes are TOML's too, once control characters are gone."""
    return json.dumps(plain(text, 300), ensure_ascii=False)


# --- `--baseline auto`: limits from the healthy start of the run itself ---
#
# The start is healthy up to its first finding. Less than LEAST_S of it teach nothing; more than MOST_S are not waited
# for. A run that is bad from its first step has a finding at once, so nothing is learned from it, and no limit is ever
# learned beyond the critical one in force: that takes `perfmon calibrate`, by a user who knows the run to be healthy.

LEAST_S, MOST_S = 300.0, 1800.0
_LOOKS = (LEAST_S, 600.0, 1200.0, MOST_S)
"""Seconds of the run after which it is looked at; what was learned then is replaced."""
_JUST_BEFORE_S = 1e-3
_MOVED_S = 60.0
"""A log that was moved on the axis by more than that has another start."""


class Baseline:
    """Learns once the run is old enough, and again as it gets older, until it knows its start."""

    def __init__(self, given: RuleSet) -> None:
        self.knowledge = given
        """With the limits that were learned, as far as any were."""
        self.note = ""
        """The result, in one line."""
        self._given = given
        self._looked_s = 0.0
        self._shifts: dict[int, float] = {}

    def look(self, store: Store, alignment: Alignment, observed_s: float) -> bool:
        """Looks at the start of the run, as often as is due; whether the limits are others now.

        What is learned does not depend on when it is called, but on what was observed.
        """
        before = self.knowledge
        shifts = dict(alignment.shifts)
        if any(abs(shift - shifts.get(log, 0.0)) > _MOVED_S for log, shift in self._shifts.items()):
            self.knowledge, self._looked_s = self._given, 0.0  # what lay at the start lies elsewhere now
        self._shifts = shifts
        if alignment.base is not TimeBase.NONE and any(self._looked_s < look <= observed_s for look in _LOOKS):
            whole = view_of(store, self._given, alignment)
            start = _Start(store, alignment, whole.whole[0])
            for look in _LOOKS:
                if self._looked_s < look <= whole.observed_s:
                    self._look(start, look)
        return self.knowledge is not before

    def _look(self, start: _Start, seconds: float) -> None:
        """Judges a longer start by what a shorter one taught: what gets worse slowly does not become usual."""
        self._looked_s = seconds
        first = _first_finding(judge(start.view(self.knowledge, seconds), self.knowledge, start.alignment, (), FIGURES))
        if first is not None:
            seconds, self._looked_s = first[0] - _JUST_BEFORE_S, MOST_S
            if seconds < LEAST_S:
                self.note = f"the run does not start healthy ({first[1]}): nothing learned, thresholds unchanged"
                return
        origin = f"{LEARNED} the first {format_seconds(seconds)} of this run"
        view = start.view(self._given, seconds)
        calibration = learn(view.metrics, bands_of(view.store, self._given.bands), origin, capped=True)
        if calibration.learned:
            self.knowledge = replace(self._given, bands=calibration.applied(self._given.bands))
            count = counted(len(calibration.learned), "metric")
            self.note = f"thresholds of {count} learned from the first {format_seconds(seconds)}"
        elif self.knowledge is self._given:
            why = "the thresholds already fit" if calibration.held_already else f"no metric has {FEWEST} samples"
            self.note = f"nothing learned from the first {format_seconds(seconds)}: {why}"


@dataclass(frozen=True, slots=True)
class _Start:
    store: Store
    alignment: Alignment
    begin: float

    def view(self, knowledge: RuleSet, seconds: float) -> View:
        """The first seconds of the run."""
        return view_of(self.store, knowledge, self.alignment, (self.begin, self.begin + seconds))


def _first_finding(snapshot: Diagnosis) -> tuple[float, str] | None:
    """The start of the first finding, in seconds since that of the run, and its signature; no notes or pending ones."""
    found = [
        (finding.first_s, finding.signature)
        for finding in snapshot.findings
        if finding.severity is not Severity.INFO and finding.state != "pending"
    ]
    return min(found, default=None)
