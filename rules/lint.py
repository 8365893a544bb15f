"""Finds mistakes in signature and threshold files that their loaders cannot see."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

from perfmon.core import DataFileError, read_toml

from .bands import Bands, load_bands
from .conditions import AMONG_VALUES, SUFFIX, Aggregate, Limits, Ratio, Threshold, every_condition
from .death import CAUSE_WORDS
from .goals import LIMIT_VALUES
from .open_spans import OPEN_VALUES
from .sentences import KNOWN, OPTIONAL_KNOWN, STATS, slots
from .signatures import Signature, Subject, load_signature, load_signatures
from .tracks import SPAN_METRICS, UPDATE, UPDATE_METRICS

# --- The names that signatures use, and those that there are: metrics, spans, marks ---

_GAP_VALUES = ("usual_s", "proven_s", "ended", "duration_s")
_VALUES = {
    "quiet": _GAP_VALUES, "absence": _GAP_VALUES, "failure": ("duration_s", "known"), "limit": LIMIT_VALUES,
    "open": OPEN_VALUES, "span": UPDATE_METRICS, "finding": (),
}  # fmt: skip
"""Values of an item by kind of subject; of spans those of weight updates."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Names of what the format packs read."""

    metrics: frozenset[str]
    spans: frozenset[str]
    marks: frozenset[str]

    def has_metric(self, metric: str) -> bool:
        """True for a known metric; one of an operation (`rpc_ms.load`) is known by what it is one of."""
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
    if subject.kind in ("metric", "mark"):
        return (subject.name,)
    if subject.kind == "span" and subject.name != UPDATE:
        return (SPAN_METRICS.get(subject.name, ("duration_s", 1.0))[0],)
    return _VALUES[subject.kind]


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
"""Calculated values of gaps, absences and spans."""


@dataclass(frozen=True, slots=True)
class Known:
    """Names that a signature may use."""

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
        """The name that was perhaps meant, to be added to a mistake."""
        return "" if self.words is None else self.words.near(name)


Mistakes = Iterator[tuple[str, str]]
"""(key, what is wrong and what was expected) of each."""


def _without_examples(signature: Signature, known: Known) -> Mistakes:
    """Examples of both kinds must be there."""
    fires = {example.fires for example in signature.examples}
    if True not in fires:
        yield "example", "no positive example, expected one with fires = true"
    if False not in fires:
        yield "example", "no negative example, expected one with fires = false"
    for at, example in enumerate(signature.examples):
        if example.verdict and not example.fires:
            yield f"example[{at}].verdict", "the verdict must fire, expected fires = true"


_SIGNATURE_ID = re.compile(r"([a-z0-9]+(?:-[a-z0-9]+)*)(?::|$)")
_FAILURE_SLOTS = frozenset(
    (
        "what", "message", "type", "rank", "ranks", "host", "pid", "component", "frame", "hung", "tries", "anew",
        "echoes", "op", "seq", "ran_ms", "group_name", "reported", "silent_ranks", "behind", "stood", "asked", "free",
        "behind_why", "fate", "capacity", "gpu", "exit_detail", "needs", "left", "reached", "task",
    )
)  # fmt: skip
"""Fields that lines of failures may have."""


def _unknown_names(signature: Signature, known: Known) -> Mistakes:
    """A metric, span or mark that no format reads: the condition would never hold."""
    for at, subject in enumerate(signature.subjects):
        if subject.kind == "quiet":
            if subject.name not in ("all", "one"):
                yield f"on[{at}].quiet", f"{subject.name}: expected all or one"
        elif subject.kind == "failure":
            unknown = [cause for cause in subject.name.split("|") if cause not in CAUSE_WORDS]
            yield from ((f"on[{at}].failure", f"{cause}: no cause of a failure") for cause in unknown)
        elif subject.kind == "limit":
            if subject.name != "time":
                yield f"on[{at}].limit", f"{subject.name}: expected time"
        elif subject.kind == "finding":
            unknown = [name for name in subject.name.split("|") if known.ids and name not in known.ids]
            yield from ((f"on[{at}].finding", f"{name}: no such signature") for name in unknown)
        elif subject.kind == "absence" and known.no_span(subject.name):
            yield f"on[{at}].absence", f"{subject.name}: expected a span (weight-update, …)"
        elif not known.word(subject.name):
            yield f"on[{at}].{subject.kind}", f"{subject.name}: no format reads it{known.near(subject.name)}"
    for at, condition in enumerate(signature.conditions):
        for part in every_condition([condition]):
            names = [name for name in (*part.metric_names(), *part.other_names()) if not known.word(name)]
            yield from ((f"condition[{at}]", f"{name}: no format reads it{known.near(name)}") for name in names)
    unknown = [name for name in signature.unless if not known.word(name)]
    yield from (("unless", f"{name}: no format reads it{known.near(name)}") for name in unknown)
    missing = [name for name, _ in signature.unseen if name != "server" and not known.word(name)]
    yield from (("unseen", f"{name}: no format reads it") for name in missing)


def _unknown_lost(signature: Signature, known: Known) -> Mistakes:
    """Lost time that cannot be calculated: its metrics must be known, its limit must have thresholds."""
    lost = signature.lost
    if lost is None:
        return
    if lost.beyond and known.bands.get(lost.beyond) is None:
        yield "lost.beyond", f"{lost.beyond}: has no thresholds"
    for key, kind in (("spans", lost.spans), ("until", lost.until)):
        if kind and not known.word(kind):
            yield f"lost.{key}", f"{kind}: no format reads it"
    for name in (*lost.share, *filter(None, (lost.rest,)), *lost.fraction, *lost.queue, *lost.seconds):
        if not known.metric(name):
            yield "lost", f"{name}: no format reads it"
    if not (lost.leg or lost.spans or lost.share or lost.rest or lost.fraction or lost.queue or lost.short):
        yield "lost", "missing, expected leg, spans, share, rest, fraction, queue or short"


def _unknown_bands(signature: Signature, known: Known) -> Mistakes:
    """A condition on the band of a metric that has none: it stays unknown for ever."""
    for at, condition in enumerate(signature.conditions):
        for part in every_condition([condition]):
            limits = getattr(part, "limits", None)
            if not isinstance(limits, Limits) or not limits.band:
                continue
            for name in part.metric_names():
                if known.bands.get(name) is None:
                    yield f"condition[{at}].band", f"{name}: has no thresholds, expected above or below"


def _unknown_signatures(signature: Signature, known: Known) -> Mistakes:
    """A cause, or the id that an entry of `confused_with` starts with, that is no signature."""
    for at, cause in enumerate(signature.causes):
        if cause.signature not in known.ids:
            yield f"cause[{at}].signature", f"{cause.signature}: no such signature"
        elif cause.signature == signature.id:
            yield f"cause[{at}].signature", "a signature cannot explain itself, expected another one"
    for name in signature.outranks:
        if name not in known.ids:
            yield "outranks", f"{name}: no such signature"
    for at, text in enumerate(signature.confused_with):
        named = _SIGNATURE_ID.match(text)
        if named and named[1] not in known.ids:
            yield f"confused_with[{at}]", f"{named[1]}: no such signature"


def _empty_slots(signature: Signature, known: Known) -> Mistakes:
    """A slot that stays empty: a figure outside of `[...]` must be one that every occurrence has."""
    own = [own_values(subject) for subject in signature.subjects]
    figures = {slot for condition in every_condition(signature.conditions) for slot in condition.slots}
    for key, slot, required in sentence_slots(signature):
        if slot in _FAILURE_SLOTS and all(s.kind in ("failure", "quiet", "limit") for s in signature.subjects):
            continue  # fields of the lines, as far as they have them
        metric, _, stat = slot.rpartition(".")
        if slot in signature.identity or (slot in figures and slot not in KNOWN):
            sure = False
        elif slot in KNOWN:
            sure = slot not in OPTIONAL_KNOWN or slot == "level"
        elif stat in STATS and known.word(metric):
            sure = _is_sure(key, metric, own)
        else:
            why = f"expected METRIC.STAT (stat: {', '.join(STATS)})"
            if stat in STATS:
                why = f"no format reads {metric}{known.near(metric)}"
            yield key, f"{{{slot}}} can never be filled, {why}"
            continue
        if required and not sure:
            yield key, f"{{{slot}}} may be empty, expected it in [...], which is left out then"


def _is_sure(key: str, metric: str, own: Sequence[tuple[str, ...]]) -> bool:
    at = re.match(r"on\[(\d+)\]", key)
    return metric in own[int(at[1])] if at else all(metric in values for values in own[:1])


def _unreachable(signature: Signature, known: Known) -> Mistakes:
    """A condition that no value can meet: by its limits, its window, or because no item has the value."""
    own = {name for subject in signature.subjects for name in own_values(subject)}
    for at, condition in enumerate(signature.conditions):
        for part in every_condition([condition]):
            for text in _faults(part, own):
                yield f"condition[{at}]", f"can never be met: {text}"
    if all(condition.role != "required" for condition in signature.conditions):
        yield "condition", "none is required, expected at least one that must be met"
    if signature.skip_first and not any(s.kind in ("metric", "mark") for s in signature.subjects):
        yield "skip_first", "skips samples, but has no sample subject"


def _faults(part: object, own: set[str]) -> Iterator[str]:
    limits = getattr(part, "limits", None)
    if isinstance(limits, Limits):
        if limits.above is not None and limits.below is not None and limits.above >= limits.below:
            yield "above is not smaller than below"
        yield from _percent(part, limits)
    if isinstance(part, Threshold) and part.within_s <= 0 and part.metric not in own:
        yield f"no subject has {part.metric}, expected within_s above 0"
    if isinstance(part, Aggregate) and part.window_n and part.least > part.window_n:
        yield "least is more than window_n"


def _percent(part: object, limits: Limits) -> Iterator[str]:
    share = isinstance(part, Aggregate) and part.stat.startswith("share")
    plain = isinstance(part, Threshold) or (isinstance(part, Aggregate) and part.stat in AMONG_VALUES)
    metric = getattr(part, "metric", "").partition(".")[0]
    if isinstance(part, Ratio) or not (share or (plain and metric.endswith(_PERCENT))):
        return
    if (limits.above is not None and limits.above >= 100) or (limits.below is not None and limits.below <= 0):
        yield "a percentage lies between 0 and 100"


def unread_metrics(bands: Bands, words: Vocabulary) -> Iterator[str]:
    """One line for each metric of users' files that no format reads, and each such name in its keys."""
    for metric, place in bands.files.items():
        band = bands.get(metric)
        if not words.has_metric(metric):
            name = "" if band is not None else f"{metric}: "
            yield f"{place}: {name}no format reads it{words.near(metric)}"
        for key, names in band.names if band is not None else ():
            for name in names:
                if name not in words.every:
                    yield f"{place}.{key}: {name}: no format reads it{words.near(name)}"


def unread_names(signatures: Iterable[Signature], bands: Bands, words: Vocabulary) -> Iterator[str]:
    """One line for each name in these signatures that no format reads, and no band limits."""
    known = Known(frozenset(), bands, words)
    for signature in signatures:
        found = (f"{signature.file}: {key}: {text}" for key, text in _unknown_names(signature, known))
        yield from dict.fromkeys(found)


LINTS = (
    _without_examples, _unknown_names, _unknown_lost, _unknown_bands, _unknown_signatures, _empty_slots, _unreachable,
)  # fmt: skip


def check_files(paths: Iterable[Path], words: Vocabulary | None = None) -> list[str]:
    """One line for each mistake in these signature and band files, naming file and key.

    Bands and signatures may refer to one another, and to the built-in ones. Without `words` (the names that formats
    read) the names of metrics, spans and marks are not checked.
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
    problems += [] if words is None else unread_metrics(known.bands, words)
    for signature in signatures:
        own = replace(known, ids=known.ids | {signature.id})
        found = (f"{signature.file}: {key}: {text}" for lint in LINTS for key, text in lint(signature, own))
        problems += dict.fromkeys(found)
    return problems


def _holds_bands(path: Path) -> bool:
    """True for a file of thresholds, not a signature, by its content; DataFileError when it is neither."""
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
