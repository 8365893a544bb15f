"""A signature in words, for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from perfmon.core import counted, format_value, metric_unit

from .bands import Band, Bands, load_bands
from .conditions import Condition
from .lint import metrics_of
from .signatures import Signature, Subject

_WIDTH = 88
_SUBJECTS = {
    "span": "each {name}",
    "metric": "each sample of {name}",
    "mark": "each mark {name}",
    "quiet": "each gap of {name}",
    "absence": "each interval without a {name}",
    "open": "each {name} that is still open",
    "limit": "the {name} that the run needs and has",
    "failure": "each failure that ends a run or a part of it: {name}",
    "finding": "each occurrence of {name}",
}
_QUIET = {"all": "all logs", "one": "one log"}


def explain(signature: Signature, bands: Bands | None = None) -> str:
    """A signature in words: meaning, conditions, fix, precedence, limits, similar ones and examples.

    `bands` are the limits to show; the built-in ones when left out.
    """
    bands = bands or load_bands()
    head = f"{signature.title} ({signature.id})"
    parts = [
        f"{head}\n{'=' * len(head)}",
        _wrapped(signature.meaning),
        _section("Subjects", (_subject(subject) for subject in signature.subjects)),
        _section("Fires when", _fires(signature)),
        _section("Fix", signature.advice),
        *(_section(f"Fix ({one.pack})", (*one.advice, *one.commands)) for one in signature.advice_for),
        *(_section(f"Fix ({cause})", advice) for cause, advice in signature.advice_by_cause.items()),
        _section("Commands", signature.commands),
        _section("Often confused with", signature.confused_with),
        _section("Explained by", (f"{c.signature} (by {_MATCH[c.match]})" for c in signature.causes)),
        _section("Precedence", _precedence(signature)),
        _section("Bands", (_band(band) for band in _used(signature, bands))),
        _section("Confidence is higher with", (message for _, message in signature.unseen)),
        _section("Examples", (_example(e.name, e.fires, e.verdict) for e in signature.examples)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


_MATCH = {"key": "the same step", "time": "the same time", "lost": "the time both cost"}


def _wrapped(text: str, indent: str = "") -> str:
    hanging = " " * len(indent)  # options such as --cuda-graph-max-bs stay whole
    return textwrap.fill(text, _WIDTH, initial_indent=indent, subsequent_indent=hanging, break_on_hyphens=False)


def _section(title: str, lines: Iterable[str]) -> str:
    texts = [_wrapped(line, "  - ") for line in lines]
    return "\n".join([title, *texts]) if texts else ""


def _subject(subject: Subject) -> str:
    name = _QUIET.get(subject.name, subject.name) if subject.kind == "quiet" else subject.name.replace("|", " or ")
    text = _SUBJECTS[subject.kind].format(name=name)
    return f"{text} as well" if subject.also else text


def _fires(signature: Signature) -> Iterator[str]:
    for condition in signature.conditions:
        yield f"{condition.explain()}{_standing(condition)}"
    (least, of), (worst, worst_of) = signature.critical_count, signature.for_count
    critical = "once" if least == 1 else f"{least} of {of} times"
    yield f"critical {critical}, or warning or worse {worst} of {worst_of} times"
    if signature.for_s:
        yield f"for at least {format_value(signature.for_s, 's')}"
    if signature.skip_first:
        yield f"the first {counted(signature.skip_first, 'sample')} of each log skipped"


def _standing(condition: Condition) -> str:
    if not condition.must_hold:
        return " (raises the confidence)"
    return " (if logged)" if condition.if_missing == "pass" else ""


def _precedence(signature: Signature) -> Iterator[str]:
    yield f"rank {signature.rank}: of several findings for the same time the lowest rank takes it"
    yield f"{signature.kind}, at most {signature.severity}"
    yield f"resolved {format_value(signature.keep_firing_for_s, 's')} after its last occurrence"


def _used(signature: Signature, bands: Bands) -> list[Band]:
    names = dict.fromkeys(metrics_of(signature))
    return [band for band in map(bands.get, names) if band is not None]


def _band(band: Band) -> str:
    unit = metric_unit(band.metric)
    above = f"{band.relative_to} + " if band.relative_to else ""
    good, critical = format_value(band.good, unit), format_value(band.critical, unit)
    signs = ("<" if not band.good_is_inclusive else "≤", ">") if band.higher_is_worse else (">", "<")
    return f"{band.metric}: good {signs[0]} {above}{good}, critical {signs[1]} {above}{critical} ({band.origin})"


def _example(name: str, fires: bool, verdict: bool) -> str:
    return f"{name}: {'fires, and is the verdict' if verdict else 'fires' if fires else 'does not fire'}"
