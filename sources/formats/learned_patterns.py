"""Patterns of a learned format: names, units, counters and regexes of the shapes of lines."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise

from perfmon.core import evidence_text

from .fields import AMOUNT, to_number
from .schema import Header
from .step_lines import TIME_WITH_UNIT, figure_of

LEAST_LINES = 3
_NUMBER = r"[-+]?(?:[\d.][\d.,]*(?:[eE][-+]?\d+)?[KMB]?|nan|inf)"
CLOCK = r"(?:\d+ days?, )?\d+:\d\d(?::\d\d)?(?:\.\d+)?"
_REGEXES = {
    "clock": CLOCK, "quoted": "(?:\"[^\"]*\"|'[^']*')", "hex": r"(?:0x)?[\da-f]+", "path": r"\S+", "number": _NUMBER,
    "word": r"[A-Za-z_]\w{0,80}",
}  # fmt: skip
_MARKED = re.compile(r"""["']?(?P<name>[A-Za-z_][\w./-]*(?: [A-Za-z_][\w./-]*){0,2})["']?\s*[=:~]\s*[\[("']*$""")
_WORD = re.compile(r"(?P<name>[A-Za-z_][\w./-]*(?: [A-Za-z_][\w./-]*){0,2})\s*[\[(#]*\s*$")
_OF = re.compile(r"\s*(?:/|\bof\b)\s*$")
_UNIT = re.compile(
    r"\s?(?P<unit>s/it(?:er)?|sec/(?:it|step)|s/step|ms/(?:it|step)|it/s|iters?/s|steps?/s"
    r"|(?:[kM] ?)?(?:(?i:toks?|tokens?)|samples?|imgs?|images?|examples?|seqs?)/s(?:ec)?"
    r"|ms|secs?|seconds?|s|mins?|minutes?|m|hours?|h|%)(?![\w/])"
)
_SECONDS = {
    "ms": "ms", "s": "s", "sec": "s", "secs": "s", "second": "s", "seconds": "s", "min": "m", "mins": "m",
    "minute": "m", "minutes": "m", "m": "m", "hour": "h", "hours": "h", "h": "h",
}  # fmt: skip
_COUNTERS = re.compile(
    r"(?i)(?:.*[ _/])?(?P<kind>(?:global_?)?(?:steps?|iter(?:ation)?s?|it|updates?|num_updates)"
    r"|epochs?|batch(?:es)?)$"
)
_TOTAL = re.compile(r"(?i)(?:total|max|num)[ _](?:steps?|iter(?:ation)?s?|updates)$")
_ELAPSED = re.compile(r"(?i)(?:elapsed|elapsed[ _]time|total[ _]time|train_time|wall|wall[ _]time|time|runtime)$")
_ALSO = {
    "grdn": "grad_norm", "gn": "grad_norm", "updt_s": "step_time", "wps": "tps",
    "eta_seconds": "eta", "remaining_time": "eta", "load_s": "data_time",
}  # fmt: skip
_METRICS = {
    "loss": "loss", "lr": "lr", "grad_norm": "grad_norm", "step_time": "step_s", "tps": "throughput_tps",
    "samples": "samples_per_s", "mfu": "mfu_pct", "data_time": "data_wait_s", "reward": "reward",
}  # fmt: skip
PROSE = (
    "The run went well and nothing of it was lost.",
    "Step 1: we compute the loss, then step 2: the gradient of it",
    "see step 3 of the guide for the loss that is meant here",
)


@dataclass(slots=True)
class Slot:
    """A place at which the lines of a shape differ."""

    kind: str
    before: str
    """The text since the slot before."""
    after: str = ""
    name: str = ""
    marked: bool = False
    """A colon or an equals sign stands between name and figure."""
    total_of: int | None = None
    values: list[str] = field(default_factory=list)
    group: str = ""
    """Of the regex; "" where it is not read."""

    @property
    def unit(self) -> str:
        """The unit right behind the figure."""
        found = _UNIT.match(self.after)
        return found["unit"] if found is not None else ""

    def numbers(self) -> list[float]:
        """The figures, those that are numbers."""
        found = []
        for value in self.values:
            with suppress(ValueError):
                found.append(to_number(value, AMOUNT))
        return found


@dataclass(slots=True)
class Shape:
    """Lines that differ in their figures alone."""

    slots: list[Slot]
    tail: str
    count: int = 0
    first: int = 0
    texts: list[str] = field(default_factory=list)
    """Some whole lines."""


def name_of_slot(shape: Shape) -> None:
    """Name each figure by the words before it; a figure behind `/` or `of` is the total of the one before."""
    for at, slot in enumerate(shape.slots):
        if at and _OF.fullmatch(slot.before) and shape.slots[at - 1].total_of is None:
            slot.total_of = at - 1
            continue
        before = slot.before
        unit = _UNIT.match(before) if at else None  # that of the figure before
        before = before[unit.end() :] if unit is not None else before
        marked = _MARKED.search(before)
        found = marked or _WORD.search(before)
        if found is not None:
            slot.name, slot.marked = found["name"], marked is not None


# --- the figures of a shape -----------------------------------------------------------------------------------------
def _figure(name: str) -> str | None:
    """The kind of figure that a name stands for, by its last words."""
    words = name.split(" ")
    for first in range(len(words)):
        phrase = " ".join(words[first:])
        last = phrase.rsplit("/", 1)[-1]
        found = figure_of(phrase) or figure_of(last) or _ALSO.get(last.lower())
        if found is not None:
            return found
    return None


def _grows(slot: Slot) -> bool:
    """True for a counter: whole numbers that nearly always grow."""
    numbers = slot.numbers()
    if slot.kind != "number" or len(numbers) < LEAST_LINES or not all(map(float.is_integer, numbers)):
        return False
    ups = sum(after >= before for before, after in pairwise(numbers))
    return len(set(numbers)) > 1 and numbers[0] >= 0 and ups >= 0.9 * (len(numbers) - 1)


def _emits(shape: Shape) -> tuple[list[str], list[str]]:
    """Emit tables in TOML, and their metrics and counters; the slots that they read get the name of their group."""
    emits: list[str] = []
    metrics: list[str] = []
    totals = {slot.total_of: slot for slot in shape.slots if slot.total_of is not None}
    remaining = elapsed = ""
    for slot in shape.slots:
        figure, unit = _figure(slot.name) if slot.name else None, slot.unit
        if unit not in _SECONDS and TIME_WITH_UNIT.fullmatch(slot.name.split(" ")[-1]) is not None:
            figure = None
        duration = "duration" if slot.kind == "clock" else _SECONDS.get(unit, "s")
        if slot.kind not in ("number", "clock") or slot.total_of is not None:
            continue
        if figure == "eta" and not remaining:
            remaining = slot.group = "eta"
            if slot.kind == "number":
                remaining = slot.group = ""  # a number alone is seconds, minutes or steps
        elif figure is not None and _METRICS.get(figure, "") not in ("", *metrics):
            metric = _METRICS[figure]
            if slot.kind == "clock" and metric not in ("step_s", "data_wait_s"):
                continue
            slot.group = _group(figure, shape)
            scale = _scale(metric, slot, duration)
            emits.append(f'{{ metric = "{metric}", field = "{slot.group}"{scale} }}')
            metrics.append(metric)
        elif _ELAPSED.match(slot.name.rsplit(" ", 1)[-1]) and slot.name:
            numbers = slot.numbers()
            if slot.kind == "clock" and not elapsed:
                elapsed = slot.group = "elapsed"
            elif unit in _SECONDS and numbers != sorted(numbers) and "step_s" not in metrics and slot.kind == "number":
                slot.group = _group("step_time", shape)
                emits.append(f'{{ metric = "step_s", field = "{slot.group}", unit = "{duration}" }}')
                metrics.append("step_s")
        else:
            emits += _by_unit(slot, unit, metrics, shape)
    return _counters(shape, totals, elapsed, remaining, metrics) + emits, metrics


def _by_unit(slot: Slot, unit: str, metrics: list[str], shape: Shape) -> list[str]:
    """The metric by the unit of a figure, where its name gives none."""
    metric, rest = {
        "s/it": ("step_s", ', unit = "s"'), "s/iter": ("step_s", ', unit = "s"'), "s/step": ("step_s", ', unit = "s"'),
        "sec/it": ("step_s", ', unit = "s"'), "sec/step": ("step_s", ', unit = "s"'),
        "ms/it": ("step_s", ', unit = "ms"'), "ms/step": ("step_s", ', unit = "ms"'),
    }.get(unit, ("", ""))  # fmt: skip
    thousands = {"k": 1000, "M": 1_000_000}.get(unit[:1], 1) if "/s" in unit else 1
    if thousands > 1:
        rest, unit = f", scale = {thousands}", unit[1:].lstrip()
    if unit[:3].lower() == "tok":
        metric = "throughput_tps"
    elif unit.endswith(("/s", "/sec")) and not re.match(r"(?:it|iters?|steps?)/", unit):
        metric = "samples_per_s"
    if not metric or metric in metrics or slot.kind != "number":
        return []
    metrics.append(metric)
    slot.group = _group(metric, shape)
    return [f'{{ metric = "{metric}", field = "{slot.group}"{rest} }}']


def _scale(metric: str, slot: Slot, duration: str) -> str:
    if metric in ("step_s", "data_wait_s"):
        return f', unit = "{duration}"'
    if metric == "mfu_pct" and slot.unit != "%" and all(number <= 1.0 for number in slot.numbers()):
        return ', unit = "ratio"'
    return ""


def _counters(shape: Shape, totals: dict[int, Slot], elapsed: str, remaining: str, metrics: list[str]) -> list[str]:
    """The step counter: the one with such a name, else the first that counts towards a total."""
    emits: list[str] = []
    candidates = [(at, slot) for at, slot in enumerate(shape.slots) if _grows(slot) and not slot.group]
    named = [
        (at, slot, _COUNTERS.match(slot.name))
        for at, slot in candidates
        if slot.total_of is None and _TOTAL.match(slot.name) is None
    ]
    for at, slot, found in sorted(named, key=lambda row: (row[2] is None, row[0])):
        kind = "" if found is None else found["kind"].lower()
        if found is None and at not in totals:
            continue
        epoch = kind.startswith("ep")
        what = "epochs" if epoch else "step"
        if what in metrics:
            continue
        slot.group = _group(what, shape)
        total = totals.get(at)
        if total is None and not epoch:
            total = next((other for other in shape.slots if _TOTAL.match(other.name) and not other.group), None)
        more = ""
        if total is not None and total.kind == "number":
            total.group = _group(f"{what}_total", shape)
            more = f', total = "{total.group}"'
        if not epoch:
            more += f', elapsed = "{elapsed}"' if elapsed else ""
            more += f', remaining = "{remaining}"' if remaining else ""
            if kind and not kind.startswith("batch"):  # a batch of an epoch begins again
                emits.append(f'{{ step = "{slot.group}", component = "trainer" }}')
        emits.append(f'{{ progress = "{what}", field = "{slot.group}"{more} }}')
        metrics.append(what)
    if "step" not in metrics:
        for slot in shape.slots:  # nothing would read them
            slot.group = "" if slot.group in ("elapsed", "eta") else slot.group
    return emits


def _group(name: str, shape: Shape) -> str:
    used = {slot.group for slot in shape.slots}
    return next(made for made in (name, *(f"{name}_{n}" for n in range(2, 99))) if made not in used)


# --- the pack ------------------------------------------------------------------------------------------------------
def pattern_of(shape: Shape, name: str) -> tuple[str, list[str]] | None:
    """A pattern in TOML and its metrics and counters; None for a shape without a clear figure or a needle."""
    emits, metrics = _emits(shape)
    read = [at for at, slot in enumerate(shape.slots) if slot.group]
    marked = any(shape.slots[at].marked or shape.slots[at].unit for at in read)
    needle = _needle(shape, read[-1] if read else -1)
    if not emits or not needle or not (marked or len(read) > 1):
        return None
    parts = []
    for slot in shape.slots[: read[-1] + 1]:
        parts.append(_literal(slot.before))
        body = _REGEXES[slot.kind]
        parts.append(f"(?P<{slot.group}>{body})" if slot.group else f"(?:{body})")
    last = shape.slots[read[-1]]
    parts.append(_literal(_UNIT.match(last.after)[0]) if last.unit else "")  # type: ignore[index]
    parts.append(r"(?![\w/])")
    rejects = [f"{needle.strip()} is the subject of this line", *PROSE]
    others = ", ".join(dict.fromkeys(slot.name for slot in shape.slots if slot.name and not slot.group))
    text = (f"# Not read of these lines: {evidence_text(others)}.\n" if others else "") + (
        f"[[pattern]]\nid = {quoted(name)}\nneedles = [{quoted(needle)}]\nanchored = true\n"
        f"regex = {quoted(''.join(parts))}\nemit = [\n"
        + "".join(f"    {emit},\n" for emit in emits)
        + f"]\nrejects = [\n{''.join(f'    {quoted(reject)},{chr(10)}' for reject in rejects)}]\n"
    )
    return text, metrics


def _needle(shape: Shape, last: int) -> str:
    """The longest text of letters that every line holds, up to its last figure and the unit of that."""
    texts = [slot.before for slot in shape.slots[: last + 1]]
    pieces = [piece for text in texts for piece in re.split(r"\s{2,}|\t", text)]
    fit = [piece for piece in pieces if len(piece.encode()) >= 3 and re.search(r"[A-Za-z]{2}", piece)]
    return max(fit, key=len, default="")[:60]


def _literal(text: str) -> str:
    return (
        re.sub(r"\s+", lambda _: r"\s+", text)
        if text.isspace()
        else r"\s+".join(map(re.escape, re.split(r"\s+", text)))
    )


def quoted(text: str) -> str:
    """A TOML string."""
    if "'" not in text and text.isprintable():
        return f"'{text}'"
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def opening_of(pack: str, header: Header | None) -> str:
    text = f'schema = 1\nid = "{pack}"\ntitle = "{pack}: learned from a log"\nrank = 100\n\n'
    if header is not None:
        samples = ", ".join(map(quoted, header.samples))
        text += (
            f'[[header]]\nid = "clock"\nregex = {quoted(header.regex)}\ntime = {quoted(header.time)}\n'
            f"samples = [{samples}]\n\n"
        )
    return text
