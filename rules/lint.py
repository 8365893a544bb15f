"""Finds mistakes in signature and band files that their loaders cannot see: lints, one small class each."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import ClassVar

from perfmon.core import DataFileError, read_toml

from .bands import Bands, load_bands
from .conditions import every_condition
from .conditions.anomalies import SUFFIX
from .conditions.base import Limits
from .conditions.values import AMONG_VALUES, Aggregate, Ratio, Threshold
from .death import CAUSE_WORDS
from .goals import LIMIT_VALUES
from .open_spans import OPEN_VALUES
from .sentences import KNOWN, OPTIONAL_KNOWN, STATS, slots
from .signatures import Signature, Subject, load_signature, load_signatures
from .tracks import SPAN_METRICS, UPDATE, UPDATE_METRICS

# --- The names that signatures speak of, and those that there are: metrics, spans, marks ---

_DEATH_VALUES = ("duration_s", "known")
_QUIET_VALUES = ("usual_s", "proven_s", "ended", "duration_s")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What the format packs can tell of."""

    metrics: frozenset[str]
    spans: frozenset[str]
    marks: frozenset[str]

    def tells(self, metric: str) -> bool:
        """Whether there is such a metric; one of an operation (`rpc_ms.load`) is known by what it is one of."""
        return metric in self.metrics or metric.partition(".")[0] in self.metrics

    def near(self, name: str) -> str:
        """`, did you mean NAME?` with the name that was perhaps meant; "" where none is near."""
        found = get_close_matches(name, self.every, 1, 0.75)
        return f", did you mean {found[0]}?" if found else ""

    @property
    def every(self) -> frozenset[str]:
        """All names."""
        return self.metrics | self.spans | self.marks


def metrics_of(signature: Signature) -> list[str]:
    """Metrics that decide: of subjects, conditions and lost time."""
    names = [name for subject in signature.subjects for name in own_values(subject)]
    names += [name for c in every_condition(signature.conditions) for name in c.metric_names()]
    return [*names, signature.lost.beyond] if signature.lost and signature.lost.beyond else names


def own_values(subject: Subject) -> tuple[str, ...]:
    """The values that an item of a subject carries itself."""
    if subject.kind in ("quiet", "absence"):
        return _QUIET_VALUES
    if subject.kind == "failure":
        return _DEATH_VALUES
    if subject.kind == "limit":
        return LIMIT_VALUES
    if subject.kind == "open":
        return OPEN_VALUES
    if subject.kind != "span":
        return (subject.name,)
    return UPDATE_METRICS if subject.name == UPDATE else (SPAN_METRICS.get(subject.name, ("duration_s", 1.0))[0],)


def sentence_slots(signature: Signature) -> Iterator[tuple[str, str, bool]]:
    """(key, slot, must be filled) of all its sentences."""
    for name, required in slots(signature.sentence):
        yield "sentence", name, required
    for at, subject in enumerate(signature.subjects):
        for name, required in slots(subject.sentence):
            yield f"on[{at}].sentence", name, required


_PERCENT = ("_pct", "_share", "_usage", "_fill", "_busy")
_OF_SIGNATURES = frozenset({"id", "title", "kind", "sentence", "on", "condition", "example"})
_CALCULATED = frozenset({"usual_s", "ended", "none", "duration_s", "wall_ms", "idle_s", "needs_s", "left_s", "short_s"})
"""Values of silences, absences and spans that no line tells."""


@dataclass(frozen=True, slots=True)
class Known:
    """What a signature may speak of."""

    ids: frozenset[str]
    bands: Bands
    words: Vocabulary | None
    """None: names are not checked."""

    def metric(self, name: str) -> bool:
        """There is such a metric."""
        name = name.removesuffix(SUFFIX)  # the mark of its samples that are not finite
        return self.words is None or name in self.words.metrics or name in self.bands.table or name in _CALCULATED

    def word(self, name: str) -> bool:
        """There is such a metric, span or mark."""
        return self.words is None or self.metric(name) or name in self.words.every

    def no_span(self, name: str) -> bool:
        """There is such a metric or mark, and it is no span."""
        return self.words is not None and self.word(name) and name not in self.words.spans

    def near(self, name: str) -> str:
        """What was perhaps meant, to be added to a mistake."""
        return "" if self.words is None else self.words.near(name)


class Lint(ABC):
    """One kind of mistake."""

    @abstractmethod
    def check(self, signature: Signature, known: Known) -> Iterator[tuple[str, str]]:
        """(key, what is wrong and what was expected) of each."""


class NoExample(Lint):
    """Nobody can tell whether it works."""

    def check(self, signature: Signature, known: Known) -> Iterator[tuple[str, str]]:
        """Both kinds must be there."""
        fires = {example.fires for example in signature.examples}
        if True not in fires:
            yield "example", "no positive example, expected one with fires = true"
        if False not in fires:
            yield "example", "no negative example, expected one with fires = false"
        for at, example in enumerate(signature.examples):
            if example.verdict and not example.fires:
                yield f"example[{at}].verdict", "the verdict must fire, expected fires = true"


_FAILURE_SLOTS = frozenset(
    (
        "what", "message", "type", "rank", "ranks", "host", "pid", "component", "frame", "hung", "tries", "anew",
        "echoes", "op", "seq", "ran_ms", "group_name", "reported", "silent_ranks", "behind", "stood", "asked", "free",
        "behind_why", "capacity", "gpu", "exit_detail", "needs", "left", "reached", "task",
    )
)  # fmt: skip
"""Fields that lines of failures may have."""


class UnknownNames(Lint):
    """A metric, span or mark that no format tells of: the condition would never hold."""

    def check(self, signature: Signature, known: Known) -> Iterator[tuple[str, str]]:
        """In subjects, conditions, requirements and lost time."""
        for at, subject in enumerate(signature.subjects):
            if subject.kind in ("quiet",):
                if subject.name not in ("all", "one"):
                    yield f"on[{at}].quiet", f"{subject.name}: expected all or one"
            elif subject.kind == "failure":
                odd = [cause for cause in subject.name.split("|") if cause not in CAUSE_WORDS]
                yield from ((f"on[{at}].failure", f"{cause}: no cause of a failure") for cause in odd)
            elif subject.kind == "limit":
                if subject.name != "time":
                    yield f"on[{at}].limit", f"{subject.name}: expected time"
            elif subject.kind == "absence" and known.no_span(subject.name):
                yield (
                    f"on[{at}].absence",
                    f"{subject.name}: expected a span (weight-update, …)",
                )
            elif not known.word(subject.name):
                yield f"on[{at}].{subject.kind}", f"{subject.name}: no format reads it{known.near(subject.name)}"
        for at, condition in enumerate(signature.conditions):
            for part in every_condition([condition]):
                names = [name for name in (*part.metric_names(), *part.other_names()) if not known.word(name)]
                yield from ((f"condition[{at}]", f"{name}: no format reads it{known.near(name)}") for name in names)
        for key, words in (("requires", signature.requires), ("unless", signature.unless)):
            yield from ((key, f"{n}: no format reads it{known.near(n)}") for n in words if not known.word(n))
        missing = [name for name, _ in signature.unseen if name != "server" and not known.word(name)]
        yield from (("unseen", f"{name}: no format reads it") for name in missing)


class UnknownLost(Lint):
    """Lost time that cannot be worked out."""

    def check(self, signature: Signature, known: Known) -> Iterator[tuple[str, str]]:
        """Its metrics must be known, its limit must have a band."""
        lost = signature.lost
        if lost is None:
            return
        if lost.beyond and known.bands.get(lost.beyond) is None:
            yield "lost.beyond", f"{lost.beyond}: has no thresholds"
        for key, kind in (("spans", lost.spans), ("until", lost.until)):
            if kind and not known.word(kind):
                yield f"lost.{key}", f"{kind}: no format reads it"
        for name in (*lost.share, *filter(None, (lost.rest,)), *lost.fraction):
            if not known.metric(name):
                yield "lost", f"{name}: no format reads it"
        if not (lost.leg or lost.spans or lost.share or lost.rest or lost.fraction or lost.short):
            yield "lost", "missing, expected leg, spans, share, rest, fraction or short"


class UnknownBand(Lint):
    """A condition on the band of a metric that has none: it stays unknown for ever."""

    def check(self, signature: Signature, known: Known) -> Iterator[tuple[str, str]]:
        """Of thresholds, aggregates and coincidences."""
        for at, condition in enumerate(signature.conditions):
            for part in every_condition([condition]):
                limits = getattr(part, "limits", None)
                if not isinstance(limits, Limits) or not limits.band:
                    continue
                for name in part.metric_names():
                    if known.bands.get(name) is None:
                        yield f"condition[{at}].band", f"{name}: has no thresholds, expected above or below"


class UnknownSignatures(Lint):
    """A cause, or something it is confused with, that is no signature."""

    _ID: ClassVar[re.Pattern[str]] = re.compile(r"([a-z0-9]+(?:-[a-z0-9]+)*)(?::|$)")

    def check(self, signature: Signature, known: Known) -> Iterator[tuple[str, str]]:
        """`confused_with` begins with an id, or has blanks before its colon."""
        for at, cause in enumerate(signature.causes):
            if cause.signature not in known.ids:
                yield f"cause[{at}].signature", f"{cause.signature}: no such signature"
            elif cause.signature == signature.id:
                yield f"cause[{at}].signature", "a signature cannot explain itself, expected another one"
        for at, said in enumerate(signature.confused_with):
            named = self._ID.match(said)
            if named and named[1] not in known.ids:
                yield f"confused_with[{at}]", f"{named[1]}: no such signature"


class Sentences(Lint):
    """A slot that stays empty."""

    def check(self, signature: Signature, known: Known) -> Iterator[tuple[str, str]]:
        """A figure outside of `[...]` must be one that every occurrence has."""
        own = [own_values(subject) for subject in signature.subjects]
        figures = {slot for condition in every_condition(signature.conditions) for slot in condition.tells}
        for key, slot, required in sentence_slots(signature):
            if slot in _FAILURE_SLOTS and all(s.kind in ("failure", "quiet", "limit") for s in signature.subjects):
                continue  # fields of the lines, as far as they have them
            if slot in signature.identity or slot in KNOWN:
                if required and ((slot in OPTIONAL_KNOWN and slot != "level") or slot in signature.identity):
                    yield key, f"{{{slot}}} may be empty, expected it in [...]"
                continue
            if slot in figures:
                if required:
                    yield key, f"{{{slot}}} may be empty, expected it in [...]"
                continue
            metric, _, stat = slot.rpartition(".")
            if stat not in STATS or not known.word(metric):
                yield key, f"{{{slot}}} can never be filled, expected METRIC.STAT (stat: {', '.join(STATS)})"
            elif required and not self._sure(key, metric, own):
                yield key, f"{{{slot}}} may be empty, expected it in [...]"

    @staticmethod
    def _sure(key: str, metric: str, own: Sequence[tuple[str, ...]]) -> bool:
        at = re.match(r"on\[(\d+)\]", key)
        return metric in own[int(at[1])] if at else all(metric in values for values in own[:1])


class Unreachable(Lint):
    """A condition that no value can meet."""

    def check(self, signature: Signature, known: Known) -> Iterator[tuple[str, str]]:
        """By its limits, its window, or because no item carries the value."""
        own = {name for subject in signature.subjects for name in own_values(subject)}
        for at, condition in enumerate(signature.conditions):
            for part in every_condition([condition]):
                for text in self._faults(part, own):
                    yield f"condition[{at}]", f"can never be met: {text}"
        if all(condition.role != "required" for condition in signature.conditions):
            yield "condition", "none is required, expected at least one that must be met"
        if signature.skip_first and not any(s.kind in ("metric", "mark") for s in signature.subjects):
            yield "skip_first", "skips samples, but has no sample subject"

    def _faults(self, part: object, own: set[str]) -> Iterator[str]:
        limits = getattr(part, "limits", None)
        if isinstance(limits, Limits):
            if limits.above is not None and limits.below is not None and limits.above >= limits.below:
                yield "above is not smaller than below"
            yield from self._percent(part, limits)
        if isinstance(part, Threshold) and part.within_s <= 0 and part.metric not in own:
            yield f"no subject has {part.metric}, expected within_s above 0"
        if isinstance(part, Aggregate) and part.window_n and part.least > part.window_n:
            yield "least is more than window_n"

    @staticmethod
    def _percent(part: object, limits: Limits) -> Iterator[str]:
        share = isinstance(part, Aggregate) and part.stat.startswith("share")
        plain = isinstance(part, Threshold) or (isinstance(part, Aggregate) and part.stat in AMONG_VALUES)
        metric = getattr(part, "metric", "").partition(".")[0]
        if isinstance(part, Ratio) or not (share or (plain and metric.endswith(_PERCENT))):
            return
        if (limits.above is not None and limits.above >= 100) or (limits.below is not None and limits.below <= 0):
            yield "a percentage lies between 0 and 100"


def odd_limits(bands: Bands, words: Vocabulary) -> Iterator[str]:
    """One line for each metric of users' files that no format tells of, and for each odd name of an `unless`."""
    for metric, place in bands.files.items():
        band = bands.get(metric)
        if not words.tells(metric):
            said = "" if band is not None else f"{metric}: "
            yield f"{place}: {said}no format reads it{words.near(metric)}"
        for name in band.unless if band is not None else ():
            if name not in words.every:
                yield f"{place}.unless: {name}: no format reads it{words.near(name)}"


def odd_names(signatures: Iterable[Signature], bands: Bands, words: Vocabulary) -> Iterator[str]:
    """One line for each name in these signatures that no format tells of, and no band judges."""
    known = Known(frozenset(), bands, words)
    for signature in signatures:
        found = (f"{signature.file}: {key}: {text}" for key, text in UnknownNames().check(signature, known))
        yield from dict.fromkeys(found)


LINTS: tuple[Lint, ...] = (
    NoExample(), UnknownNames(), UnknownLost(), UnknownBand(), UnknownSignatures(), Sentences(), Unreachable(),
)  # fmt: skip


def check_files(paths: Iterable[Path], words: Vocabulary | None = None) -> list[str]:
    """One line for each mistake in these signature and band files, naming file and key.

    Bands and signatures may speak of one another, and of the built-in ones. Without `words` (what the formats can
    tell of) the names of metrics, spans and marks are not checked.
    """
    problems: list[str] = []
    signatures: list[Signature] = []
    band_files: list[Path] = []
    for path in paths:
        try:
            if _holds_bands(path):
                load_bands([path])
                band_files.append(path)
            else:
                signatures.append(load_signature(path))
        except DataFileError as error:
            problems.append(str(error))
    ids = frozenset(s.id for s in (*signatures, *load_signatures()))
    known = Known(ids, load_bands(band_files), words)
    problems += [] if words is None else odd_limits(known.bands, words)
    return problems + [line for signature in signatures for line in _linted(signature, known)]


def _holds_bands(path: Path) -> bool:
    """Whether a file is one of bands, not a signature, by its content; DataFileError when it is neither."""
    root = read_toml(path)
    data = root.data
    if "pattern" in data or "header" in data:
        raise DataFileError(root.file, "file", "a format pack; `perfmon analyze --formats DIR` checks those")
    if "criterion" in data:
        raise DataFileError(root.file, "file", "criteria; `perfmon compare --criteria FILE` checks those")
    if data.keys() & _OF_SIGNATURES:
        return False
    if data.keys() & {"band", "better"}:
        return True
    for name, value in data.items():
        if isinstance(value, dict) and value.keys() & {"good", "critical"}:
            raise DataFileError(root.file, name, f"expected [band.{name}] (thresholds of a metric)")
    expected = "a signature (id, title, [[on]], [[condition]]) or thresholds ([band.METRIC] with good and critical)"
    raise DataFileError(root.file, "file", f"of no known kind, expected {expected}")


def _linted(signature: Signature, known: Known) -> list[str]:
    known = replace(known, ids=known.ids | {signature.id})
    found = (f"{signature.file}: {key}: {text}" for lint in LINTS for key, text in lint.check(signature, known))
    return list(dict.fromkeys(found))
