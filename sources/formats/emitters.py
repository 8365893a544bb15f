"""Turns the fields of a recognised line into observations, one maker a rule.

Makers run for every recognised line of every log, so each is put together once, for exactly what its rule needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any

from perfmon.core import (
    CLOSE,
    COUNTED,
    DETAIL,
    FAILURE,
    LEG,
    LEGS,
    MARK,
    MEANS,
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

_PHASES = frozenset(LEGS)
_KEEP_TEXT = 200
_KEEP_FAILURE = 400
_LONGEST_WORK_S = 10 * 365 * 86_400.0
"""A bar that estimates more than ten years does not know."""


def maker(emit: Emit, stopped: Callable[[], None] | None = None) -> Maker:
    """The maker of one rule. It raises AbsurdValueError, or ValueError when a field holds no number.

    `stopped` is called when a regex of a user's rule takes too long.
    """
    made = _MAKERS[emit.kind](emit)
    if emit.where:
        fits = condition(emit.where, stopped)
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
    """The seconds in the first of some fields that the line has."""
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


def _optional_seconds(
    emit: Emit, names: tuple[str, ...]
) -> Callable[[Values], tuple[float | None, AbsurdValueError | None]]:
    """The seconds for an observation that stays without them: an absurd value is returned, not raised."""
    if not names:
        return lambda _: (None, None)
    seconds = _timed(emit, names)

    def read(values: Values) -> tuple[float | None, AbsurdValueError | None]:
        try:
            return seconds(values), None
        except AbsurdValueError as error:
            return None, error

    return read


def _unless(absurd: AbsurdValueError | None, observation: Observation) -> Observation:
    """The observation; raised, where one of its values was absurd, with all the rest."""
    if absurd is None:
        return observation
    raise AbsurdValueError(str(absurd), observation)


def _text_of(names: Sequence[str], mark: str) -> Callable[[Values], str]:
    """The fields that the line has, joined by `mark`; "" without any."""
    if len(names) != 1:
        return lambda values: mark.join([str(values[n]) for n in names if values.get(n) is not None])[:_KEEP_TEXT]
    name = names[0]

    def read(values: Values) -> str:
        value = values.get(name)
        return "" if value is None else str(value)[:_KEEP_TEXT]

    return read


def _keyed(emit: Emit) -> Callable[[Values], str]:
    return _text_of(emit.key, "/") if emit.key else lambda _: ""


def _grouped(emit: Emit) -> Callable[[Values], str]:
    return _text_of(emit.group.split(":"), ":") if emit.group else lambda _: ""


def _kept(emit: Emit) -> Callable[[Values], Fields]:
    """The fields that are kept, where the line has them."""
    names = emit.keep

    def keep(values: Values) -> Fields:
        kept: Fields = {}
        for name in names:
            value = values.get(name)
            if value is not None:
                kept[name] = float(value) if isinstance(value, int | float) else str(value)[:_KEEP_TEXT]
        return kept

    return keep if names else lambda _: {}


def _metric(emit: Emit) -> Maker:
    if emit.rate:
        return _counted_metric(emit)
    if emit.each:
        return _mean_metric(emit)
    plain = len(emit.field) == 1 and not (emit.minus or emit.over or emit.skip_zero)
    return _plain_metric(emit) if plain and emit.unit not in ("duration", "date") else _any_metric(emit)


def _counted_metric(emit: Emit) -> Maker:
    """A field that counts from a start: the metric is what it grows by in a second."""
    name, grouped, keyed = emit.name, _grouped(emit), _keyed(emit)

    def make(values: Values) -> Observation | None:
        value = _first(values, emit.field)
        if value is None:
            return None
        total = to_number(value, emit.unit) * emit.scale
        if not isfinite(total):
            raise AbsurdValueError(f"{emit.field[0]}={total:g}")
        return (COUNTED, name, total, grouped(values), keyed(values))

    return make


def _mean_metric(emit: Emit) -> Maker:
    """Two means since an epoch began: the metric is what the one takes of the other, in its parts."""
    name, grouped = emit.name, _grouped(emit)

    def make(values: Values) -> Observation | None:
        part, whole, step = _first(values, emit.field), _first(values, emit.over), values.get(emit.each)
        if part is None or whole is None or step is None:
            return None
        means = [checked(name, to_number(value, emit.unit), "s", name) for value in (part, whole)]
        # The first step has the number 0.
        return (MEANS, name, grouped(values), to_number(step, AMOUNT) + 1.0, *means, emit.metric)

    return make


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


def _phase(emit: Emit) -> Maker:
    """A phase of a weight update, or all of one: then the rule names the phase."""
    phase_field, key = emit.name, emit.key
    named = emit.name if emit.name in _PHASES else None
    kept = {name: name.endswith("_ms") for name in emit.keep}
    low, high = limits("", "ms")

    def make(values: Values) -> Observation | None:
        phase = named or values.get(phase_field)
        update = _first(values, key) if key else ""
        if phase not in _PHASES or update is None:
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
        made = (LEG, str(update)[:_KEEP_TEXT], phase, fields) if not named or _is_update(fields) else None
        if absurd:
            raise AbsurdValueError(", ".join(absurd), made)
        return made

    return make


def _is_update(fields: Fields) -> bool:
    """True where two of an update's three durations are known; adds the wall time where the parts are."""
    parts = [fields[name] for name in ("queue_ms", "rpc_ms") if name in fields]
    if len(parts) == 2:
        fields.setdefault("wall_ms", float(parts[0]) + float(parts[1]))
    return bool(parts) and "wall_ms" in fields


def _span(emit: Emit) -> Maker:
    key, timed, led, kept = _keyed(emit), _timed(emit, emit.duration), _optional_seconds(emit, emit.lead), _kept(emit)

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
    key, timed, kept = _keyed(emit), _optional_seconds(emit, emit.duration), _kept(emit)
    before = _optional_seconds(emit, emit.minus)

    def make(values: Values) -> Observation | None:
        fields = kept(values)
        duration, absurd = timed(values)
        if duration is not None:
            fields["duration_s"] = duration
        if emit.minus and (ahead := before(values)[0]) is not None:
            fields["before_s"] = ahead
        if emit.metric:
            fields["metric"] = emit.metric
        return _unless(absurd, (CLOSE, emit.name, key(values), fields))

    return make


def _step(emit: Emit) -> Maker:
    timed = _optional_seconds(emit, emit.duration)

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
    """Every field that a line has, as text: what a sentence about a failure may contain."""
    return {name: str(value)[:_KEEP_FAILURE] for name, value in values.items() if value not in (None, "")}


def _failure(emit: Emit) -> Maker:
    return lambda values: (FAILURE, emit.name, emit.role, emit.fatal, _all_fields(values))


def _detail(emit: Emit) -> Maker:
    return lambda values: (DETAIL, emit.name, _all_fields(values))


def _run(emit: Emit) -> Maker:
    return lambda values: (RUN, emit.name, _all_fields(values))


_MAKERS: dict[str, Callable[[Emit], Maker]] = {
    "metric": _metric,
    "leg": _phase,
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
