"""Turns the fields of a recognised line into observations, one maker a rule.

Makers run for every recognised line of every log, so each is put together once, for exactly what its rule needs.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any

from perfmon.core import (
    CLOSE,
    DETAIL,
    FAILURE,
    LEG,
    LEGS,
    MARK,
    OPEN,
    PROGRESS,
    ROW,
    RUN,
    SAMPLE,
    SPAN,
    STEP,
    Fields,
    Observation,
    convert,
    metric_unit,
)

from .fields import AMOUNT, ANY, DIVERGES, LONGEST_S, AbsurdValueError, Values, checked, condition, limits, to_number
from .schema import Emit

Maker = Callable[[Values], Observation | None]

_LEGS = frozenset(LEGS)
_KEEP_TEXT = 200
_KEEP_FAILURE = 400
_LONGEST_WORK_S = 10 * 365 * 86_400.0
"""A bar that estimates more than ten years does not know."""


def maker(emit: Emit) -> Maker:
    """The maker of one rule. It raises AbsurdValueError, or ValueError when a field holds no number."""
    made = _MAKERS[emit.kind](emit)
    if emit.where:
        fits = condition(emit.where)
        return lambda values: made(values) if fits(values) else None
    if emit.when is None:
        return made
    field, wanted = emit.when
    return lambda values: made(values) if str(values.get(field)) == wanted else None


def _first(values: Values, names: tuple[str, ...]) -> Any:
    for name in names:
        value = values.get(name)
        if value is not None:
            return value
    return None


def _seconds(emit: Emit, values: Values, names: tuple[str, ...]) -> float | None:
    name = next((name for name in names if values.get(name) is not None), None)
    if name is None:
        return None
    unit = emit.unit or "s"
    seconds = convert(to_number(values[name], unit), "s" if unit == "duration" else unit, "s")
    return checked(name, seconds * emit.scale, "s")


def _timed(emit: Emit, names: tuple[str, ...]) -> Callable[[Values], float | None]:
    """The seconds that one of some fields tells."""
    if len(names) != 1 or emit.unit == "duration":
        return lambda values: _seconds(emit, values, names)
    field = names[0]
    factor = convert(1.0, emit.unit or "s", "s") * emit.scale

    def read(values: Values) -> float | None:
        value = values.get(field)
        if value.__class__ is str:
            try:
                seconds = float(value) * factor
            except ValueError:
                return _seconds(emit, values, names)
            return seconds if 0.0 <= seconds <= LONGEST_S else checked(field, seconds, "s")
        return None if value is None else _seconds(emit, values, names)

    return read


_Told = tuple[float | None, AbsurdValueError | None]


def _told_seconds(emit: Emit, names: tuple[str, ...]) -> Callable[[Values], _Told]:
    """The same for what is told beside something else: that stays, whatever the duration says."""
    timed = _timed(emit, names)

    def read(values: Values) -> _Told:
        try:
            return timed(values), None
        except AbsurdValueError as error:
            return None, error

    return read if names else lambda _: (None, None)


def _unless(absurd: AbsurdValueError | None, told: Observation) -> Observation:
    """What is told; where a value beside it was absurd that is raised, with all the rest."""
    if absurd is None:
        return told
    raise AbsurdValueError(str(absurd), told)


def _keyed(emit: Emit) -> Callable[[Values], str]:
    """The key's fields that the line has, joined by `/`."""
    if not emit.key:
        return lambda _: ""
    if len(emit.key) == 1:
        return _told_by(emit.key[0])
    return lambda values: "/".join(str(values[n]) for n in emit.key if values.get(n) is not None)[:_KEEP_TEXT]


def _grouped(emit: Emit) -> Callable[[Values], str]:
    """The series that a value belongs to: a field, or several (`host:name`) that the line has, joined by `:`."""
    names = emit.group.split(":") if emit.group else []
    if not names:
        return lambda _: ""
    if len(names) == 1:
        return _told_by(names[0])
    return lambda values: ":".join([str(values[n]) for n in names if values.get(n) is not None])[:_KEEP_TEXT]


def _told_by(name: str) -> Callable[[Values], str]:
    """What one field tells, "" where the line does not have it."""

    def read(values: Values) -> str:
        value = values.get(name)
        return "" if value is None else str(value)[:_KEEP_TEXT]

    return read


def _kept(emit: Emit) -> Callable[[Values], Fields]:
    """The fields that are kept, where the line has them."""
    names = emit.keep

    def keep(values: Values) -> Fields:
        kept: Fields = {}
        for name in names:
            value = values.get(name)
            if value is not None:
                kept[name] = value[:_KEEP_TEXT] if value.__class__ is str else _kept_value(value)
        return kept

    return keep if names else lambda _: {}


def _kept_value(value: Any) -> float | str:
    """What is kept of a value that is no plain text: JSON has numbers and tables."""
    return float(value) if isinstance(value, int | float) else str(value)[:_KEEP_TEXT]


def _metric(emit: Emit) -> Maker:
    plain = len(emit.field) == 1 and not (emit.minus or emit.over or emit.skip_zero)
    return _plain_metric(emit) if plain and emit.unit not in ("duration", "date") else _any_metric(emit)


def _plain_metric(emit: Emit) -> Maker:
    """A field that only changes its unit: nearly all samples are of this kind."""
    name, field, unit = emit.name, emit.field[0], metric_unit(emit.name)
    factor, grouped = convert(emit.scale, emit.unit, unit), _grouped(emit)
    low, high = limits(name, unit)
    diverges = DIVERGES.match(name) is not None

    def make(values: Values) -> Observation | None:
        value = values.get(field)
        if value is None:
            return None
        if value.__class__ is str:
            try:
                number = float(value) * factor
            except ValueError:
                number = to_number(value, "") * factor
        else:
            number = to_number(value, "") * factor
        if low <= number <= high:
            return (SAMPLE, name, number if number > 0.0 or unit != "%" else 0.0, grouped(values))
        if diverges and not isfinite(number):
            return (SAMPLE, name, number, grouped(values))
        raise AbsurdValueError(f"{field}={number:g}")

    return make


def _any_metric(emit: Emit) -> Maker:
    unit, grouped = metric_unit(emit.name), _grouped(emit)
    source = "s" if emit.unit == "duration" else "" if emit.unit == "date" else emit.unit

    def make(values: Values) -> Observation | None:
        value = _first(values, emit.field)
        if value is None:
            return None
        number = to_number(value, emit.unit)
        if emit.minus:
            parts = [to_number(values[name], emit.unit) for name in emit.minus if values.get(name) is not None]
            number = max(0.0, number - sum(parts))
        if emit.skip_zero and not number:
            return None
        if emit.over:
            whole = _first(values, emit.over)
            divisor = 0.0 if whole is None else to_number(whole, emit.unit)
            if divisor <= 0:
                return None
            number = 100.0 * number / divisor
        else:
            number = convert(number * emit.scale, source, unit)
        return (SAMPLE, emit.name, checked(emit.field[0], number, unit, emit.name), grouped(values))

    return make


def _leg(emit: Emit) -> Maker:
    leg_field, key = emit.name, emit.key
    told_by_rule = emit.name if emit.name in _LEGS else None
    kept = {name: name.endswith("_ms") for name in emit.keep}
    low, high = limits("", "ms")

    def make(values: Values) -> Observation | None:
        leg = told_by_rule or values.get(leg_field)
        trace = _first(values, key) if key else ""
        if leg not in _LEGS or trace is None:
            return None
        fields: Fields = {}
        absurd = []
        for name, value in values.items():
            if value is None or name not in kept:
                continue
            if not kept[name]:
                fields[name] = str(value)[:_KEEP_TEXT]
                continue
            try:
                number = to_number(value, "ms")
                fields[name] = number if low <= number <= high else checked(name, number, "ms")
            except ValueError:
                absurd.append(f"{name}={str(value)[:40]}")
        told = (LEG, str(trace)[:_KEEP_TEXT], leg, fields) if not told_by_rule or _is_update(fields) else None
        if absurd:
            raise AbsurdValueError(", ".join(absurd), told)
        return told

    return make


def _is_update(fields: Fields) -> bool:
    """Whether two of an update's three durations are told; adds the wall time where the parts are."""
    told = [fields[name] for name in ("queue_ms", "rpc_ms") if name in fields]
    if len(told) == 2:
        fields.setdefault("wall_ms", float(told[0]) + float(told[1]))
    return bool(told) and "wall_ms" in fields


def _span(emit: Emit) -> Maker:
    key, timed, led, kept = _keyed(emit), _timed(emit, emit.duration), _told_seconds(emit, emit.lead), _kept(emit)

    def make(values: Values) -> Observation | None:
        duration = timed(values)
        if duration is None:
            return None
        if emit.minus:
            duration = max(0.0, duration - sum(_seconds(emit, values, (name,)) or 0.0 for name in emit.minus))
        if emit.skip_zero and not duration:
            return None
        lead, absurd = led(values)
        lead = duration if lead is None else max(lead, duration)
        fields = kept(values)
        if emit.each and values.get(emit.each) is not None:
            fields["each"] = to_number(values[emit.each], AMOUNT)
        if emit.behind:
            fields["behind"] = "1"
        return _unless(absurd, (SPAN, emit.name, duration, lead, key(values), fields))

    return make


def _open(emit: Emit) -> Maker:
    key, kept = _keyed(emit), _kept(emit)
    return lambda values: (OPEN, emit.name, key(values), kept(values))


def _close(emit: Emit) -> Maker:
    key, timed, kept = _keyed(emit), _told_seconds(emit, emit.duration), _kept(emit)

    def make(values: Values) -> Observation | None:
        fields = kept(values)
        duration, absurd = timed(values)
        if duration is not None:
            fields["duration_s"] = duration
        if emit.metric:
            fields["metric"] = emit.metric
        return _unless(absurd, (CLOSE, emit.name, key(values), fields))

    return make


def _step(emit: Emit) -> Maker:
    timed = _told_seconds(emit, emit.duration)

    def make(values: Values) -> Observation | None:
        value = _first(values, emit.field)
        if value is None and not emit.bar:
            return None
        number = None if value is None else int(checked("step", to_number(value, AMOUNT), ""))
        duration, absurd = timed(values)
        return _unless(absurd, (STEP, emit.name, number, duration))

    return make


def _mark(emit: Emit) -> Maker:
    grouped = _grouped(emit)

    def make(values: Values) -> Observation | None:
        value = _first(values, emit.field) if emit.field else 1.0
        if value is None:
            return None
        count = checked(emit.name, to_number(value, ""), "")
        return (MARK, emit.name, count, grouped(values)) if count else None

    return make


def _row(emit: Emit) -> Maker:
    name = emit.name

    def make(values: Values) -> Observation | None:
        value = values.get(name)
        return None if value is None else (ROW, checked(name, to_number(value, ""), ""))

    return make


def _progress(emit: Emit) -> Maker:
    key, group = _keyed(emit), _grouped(emit)
    names = (emit.total, emit.elapsed, emit.remaining)
    named = any(names) or bool(emit.key or emit.group)
    unit = emit.unit or "duration"

    def seconds(values: Values, fields: tuple[str, ...]) -> float | None:
        value = _first(values, fields)
        if value is None or (isinstance(value, str) and "?" in value):  # a bar that does not know yet
            return None
        found = convert(to_number(value, unit), "s" if unit == "duration" else unit, "s")
        return found if 0.0 <= found < _LONGEST_WORK_S else None

    def make(values: Values) -> Observation | None:
        amount = None
        if emit.field:
            value = _first(values, emit.field)
            if value is None:
                return None
            amount = to_number(value, AMOUNT) * emit.scale
            if not 0.0 <= amount <= ANY[1] or (not amount and (emit.rate or emit.skip_zero)):
                return None
            amount = None if emit.rate else amount
        if not named:
            return (PROGRESS, emit.name, amount, None, None, None, "", emit.metric)
        total, elapsed, remaining = names
        of = _first(values, total) if total else None
        whole = None if of is None or (isinstance(of, str) and "?" in of) else to_number(of, AMOUNT) * emit.scale
        name = "/".join(part for part in (group(values), key(values)) if part)
        times = seconds(values, elapsed), seconds(values, remaining)
        return (PROGRESS, emit.name, amount, whole, *times, name, emit.metric)

    return make


def _all_fields(values: Values) -> Fields:
    """Every field that a line has, as text: what a sentence about a failure may tell."""
    return {name: str(value)[:_KEEP_FAILURE] for name, value in values.items() if value not in (None, "")}


def _failure(emit: Emit) -> Maker:
    return lambda values: (FAILURE, emit.name, emit.role, emit.fatal, _all_fields(values))


def _detail(emit: Emit) -> Maker:
    return lambda values: (DETAIL, emit.name, _all_fields(values))


def _run(emit: Emit) -> Maker:
    return lambda values: (RUN, emit.name, _all_fields(values))


_MAKERS: dict[str, Callable[[Emit], Maker]] = {
    "metric": _metric,
    "leg": _leg,
    "span": _span,
    "open": _open,
    "close": _close,
    "step": _step,
    "mark": _mark,
    "row": _row,
    "progress": _progress,
    "failure": _failure,
    "detail": _detail,
    "run": _run,
}
