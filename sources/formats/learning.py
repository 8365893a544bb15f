"""Proposes a format pack from the lines of a log that nobody recognises.

Lines of one shape are found by what is left of them without their figures. A shape is proposed when at least one of
its figures has a clear meaning: a step counter that grows, a loss, a duration, a rate. What the figures are called is
taken from the words beside them, the clock from how most lines begin. The pack holds samples from the log and is
checked before it is handed over: it loads, it recognises these samples, and it reads no sentence.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from perfmon.errors import InputError, PerfmonError
from perfmon.model import SAMPLE
from perfmon.text import evidence_text

from .compiled import CompiledPattern, compile_patterns
from .headers import HeaderReader
from .loader import load_pack
from .schema import Header, Pack
from .stamps import time_regex
from .steplines import figure_of
from .values import AMOUNT, to_number

_LEAST_LINES = 3
_MOST_SHAPES, _MOST_VALUES, _MOST_PATTERNS = 20_000, 500, 24
_LONGEST = 2000
_MOST_WORDS = 12
"""A line with more words of letters alone in a row than that is prose."""
_TIMES = (
    "%Y-%m-%d_%H:%M:%S%f", "%Y.%m.%d %H:%M:%S%f", "%Y/%m/%d-%H:%M:%S%f", "%Y%m%d-%H:%M:%S%f", "%Y%m%d_%H:%M:%S%f",
    "%Y-%m-%d %H:%M:%S%f", "%d-%m-%Y %H:%M:%S%f", "%d/%m/%Y %H:%M:%S%f", "%H:%M:%S%f",
)  # fmt: skip
_NUMBER = r"[-+]?(?:[\d.][\d.,]*(?:[eE][-+]?\d+)?[KMB]?|nan|inf)"
_CLOCK = r"(?:\d+ days?, )?\d+:\d\d(?::\d\d)?(?:\.\d+)?"
_TOKEN = re.compile(
    rf"""(?P<clock>(?<![\w.:]){_CLOCK}(?![\w:]))
    |(?P<key>"[^"]{{1,80}}"\s?:|'[^']{{1,80}}'\s?:)
    |(?P<quoted>"(?![-+\d.:]+[\w%]{{0,3}}")[^"]{{0,400}}"|'(?![-+\d.:]+[\w%]{{0,3}}')[^']{{0,400}}')
    |(?P<hex>\b0x[\da-f]+\b|\b(?=[a-f]*\d)(?=\d*[a-f])[\da-f]{{7,}}\b)
    |(?P<path>(?<![\w./])(?:\w+://|[~.]{{0,2}}/)[\w./~%+=?&:@-]{{2,}}|(?<![\w./])(?:[\w.-]+/){{2,}}[\w.-]*[A-Za-z][\w.-]*)
    |(?P<number>(?<![\w.])[-+]?(?:(?:\d+(?:,\d{{3}})*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?(?:[KMB](?!\w))?|(?:nan|inf)\b))""",
    re.VERBOSE,
)
_REGEXES = {
    "clock": _CLOCK, "quoted": "(?:\"[^\"]*\"|'[^']*')", "hex": r"(?:0x)?[\da-f]+", "path": r"\S+", "number": _NUMBER,
}  # fmt: skip
_MARKED = re.compile(r"""["']?(?P<name>[A-Za-z_][\w./-]*(?: [A-Za-z_][\w./-]*){0,2})["']?\s*[=:]\s*[\[("']*$""")
_WORD = re.compile(r"(?P<name>[A-Za-z_][\w./-]*(?: [A-Za-z_][\w./-]*){0,2})\s*[\[(#]*\s*$")
_OF = re.compile(r"\s*(?:/|\bof\b)\s*$")
_UNIT = re.compile(
    r"\s?(?P<unit>s/it(?:er)?|sec/(?:it|step)|s/step|ms/(?:it|step)|it/s|iters?/s|steps?/s|(?:tok|tokens?)/s(?:ec)?"
    r"|(?:samples?|imgs?|images?|examples?|seqs?)/s(?:ec)?|ms|secs?|seconds?|s|mins?|minutes?|m|hours?|h|%)(?![\w/])"
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
_PROSE = (
    "The run went well and nothing of it was lost.",
    "Step 1: we compute the loss, then step 2: the gradient of it",
    "see step 3 of the guide for the loss that is meant here",
)


class NothingLearnedError(InputError):
    """A log holds no lines that a format could be made from; the message says why."""


@dataclass(slots=True)
class _Slot:
    """Where the lines of a shape differ."""

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
    """Of the regex; "" where nobody reads it."""

    @property
    def unit(self) -> str:
        """What stands right behind the figure."""
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
class _Shape:
    """Lines that differ in their figures alone."""

    slots: list[_Slot]
    tail: str
    count: int = 0
    first: int = 0
    texts: list[str] = field(default_factory=list)
    """Some whole lines."""


@dataclass(slots=True)
class Proposal:
    """A format pack, not yet on disk."""

    toml: str
    lines: int
    """Of the log that were looked at."""
    recognised: int
    """Those of the shapes that the pack reads."""
    found: tuple[str, ...]
    """What it reads: names of metrics and counters."""


def propose(lines: Iterable[str], pack: str, packs: Sequence[Pack], known: Callable[[str], bool]) -> Proposal:
    """A pack with that id for lines (without line ends) that `packs` do not read; `known` tells which lines they do.

    Raises NothingLearnedError, in one line, where there is nothing to learn.
    """
    texts = [text for text in lines if text.strip() and len(text) <= _LONGEST]
    if not texts:
        raise NothingLearnedError("no lines of text")
    header = _clock_of(texts, HeaderReader(packs))
    readers = [*packs, *([_header_pack(header)] if header is not None else [])]
    shapes = _shapes(texts, HeaderReader(readers))
    repeated = sorted((shape for shape in shapes if shape.count >= _LEAST_LINES), key=lambda shape: -shape.count)
    if not repeated:
        raise NothingLearnedError(f"none of its {len(texts)} lines repeats a shape")
    pieces: list[tuple[_Shape, str]] = []
    names: Counter[str] = Counter()
    for shape in repeated:
        if len(pieces) == _MOST_PATTERNS or known(shape.texts[0]):
            continue
        made = _pattern(shape, f"line-{len(pieces) + 1}")
        if made is None:
            continue
        text, emitted = made
        gives = _checked(pack, header, text, shape, packs)
        if gives is not None:
            pieces.append((shape, text + gives))
            names.update(emitted)
    if not pieces:
        raise NothingLearnedError(
            "no repeated lines with a step counter, a loss, a duration or a rate that perfmon does not read already"
        )
    body = "\n".join(text for _, text in sorted(pieces, key=lambda piece: piece[0].first))
    return Proposal(
        _opening(pack, header) + body, len(texts), sum(shape.count for shape, _ in pieces), tuple(dict.fromkeys(names))
    )


def sample_problems(pack: Pack, packs: Sequence[Pack]) -> list[str]:
    """What a pack's own samples and rejects show to be wrong with it, one line each; `packs` are those beside it."""
    problems = []
    reader = HeaderReader([*packs, pack])
    for compiled in compile_patterns([pack]):
        name = compiled.pattern.name
        for sample in compiled.pattern.samples:
            gives = _observed(compiled, reader, sample.text)
            if gives is None:
                problems.append(f"{name}: does not recognise its sample {evidence_text(sample.text)[:80]!r}")
                continue
            wrong = [metric for metric, value in sample.gives.items() if abs(gives.get(metric, 1e300) - value) > 1e-9]
            problems += [f"{name}: {metric} is {gives.get(metric)} in its sample" for metric in wrong]
        problems += [
            f"{name}: recognises what it must reject: {evidence_text(text)[:80]!r}"
            for text in compiled.pattern.rejects
            if _observed(compiled, reader, text) is not None
        ]
    return problems


# --- the clock -----------------------------------------------------------------------------------------------------
def _clock_of(texts: Sequence[str], reader: HeaderReader) -> Header | None:
    """How most lines begin that no header reads, where that is a time."""
    unread = [text for text in texts[:2000] if reader.read(text) is None]
    if len(unread) * 2 < min(len(texts), 2000):
        return None
    for time in _TIMES:
        found: Counter[tuple[str, str]] = Counter()
        begin = re.compile(rf"(?P<open>[\[(<{{|#]{{0,2}}\s?){time_regex(time)}(?P<close>\s?[\])>}}|]?)")
        for text in unread:
            match = begin.match(text)
            if match is not None:
                found[match["open"], match["close"]] += 1
        if found and (most := found.most_common(1)[0])[1] * 2 >= len(unread):
            (opening, closing), _ = most
            sample = next(text for text in unread if begin.match(text))
            regex = f"{re.escape(opening)}{{time}}{re.escape(closing.rstrip())}"
            return Header("clock", regex, time, (evidence_text(sample)[:200],))
    return None


def _header_pack(header: Header) -> Pack:
    return Pack("learned", "", "", 100, False, False, (header,), ())


# --- shapes --------------------------------------------------------------------------------------------------------
def _shapes(texts: Sequence[str], reader: HeaderReader) -> list[_Shape]:
    shapes: dict[tuple[str, ...], _Shape] = {}
    for number, text in enumerate(texts):
        message, _ = reader.message(text)
        slots, tail = _cut(message)
        if not slots or _is_prose(message):
            continue
        key = (*(part for slot in slots for part in (" ".join(slot.before.split()), slot.kind)), tail.strip())
        shape = shapes.get(key)
        if shape is None:
            if len(shapes) >= _MOST_SHAPES:
                continue
            shape = shapes[key] = _Shape(slots, tail, first=number)
        shape.count += 1
        if len(shape.texts) < _MOST_VALUES:
            shape.texts.append(text)
            if shape.count > 1:
                for slot, other in zip(shape.slots, slots, strict=True):
                    slot.values += other.values
    for shape in shapes.values():
        _name(shape)
    return list(shapes.values())


def _cut(message: str) -> tuple[list[_Slot], str]:
    """The slots of a message, and what stands behind the last of them."""
    slots: list[_Slot] = []
    at = 0
    for found in _TOKEN.finditer(message):
        if found.lastgroup == "key":
            continue
        before = message[at : found.start()]
        if slots:
            slots[-1].after = before
        slots.append(_Slot(found.lastgroup or "", before, values=[found[0]]))
        at = found.end()
    if slots:
        slots[-1].after = message[at:]
    return slots, message[at:]


def _is_prose(message: str) -> bool:
    return re.search(rf"(?:\b[A-Za-z]{{2,}} ){{{_MOST_WORDS}}}", message) is not None


def _name(shape: _Shape) -> None:
    """Calls each figure what the words before it say; a figure behind `/` or `of` is the total of the one before."""
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


# --- what a shape says ---------------------------------------------------------------------------------------------
def _figure(name: str) -> str | None:
    """What a figure of that name is, by its last words."""
    words = name.split(" ")
    for first in range(len(words)):
        told = " ".join(words[first:])
        last = told.rsplit("/", 1)[-1]
        found = figure_of(told) or figure_of(last) or _ALSO.get(last.lower())
        if found is not None:
            return found
    return None


def _grows(slot: _Slot) -> bool:
    """Whether a figure is a counter: whole numbers that nearly always grow."""
    numbers = slot.numbers()
    if slot.kind != "number" or len(numbers) < _LEAST_LINES or any(number != int(number) for number in numbers):
        return False
    ups = sum(after >= before for before, after in pairwise(numbers))
    return len(set(numbers)) > 1 and numbers[0] >= 0 and ups >= 0.9 * (len(numbers) - 1)


def _emits(shape: _Shape) -> tuple[list[str], list[str]]:
    """Emit tables in TOML, and what they tell; the slots that they read get the name of their group."""
    emits: list[str] = []
    told: list[str] = []
    totals = {slot.total_of: slot for slot in shape.slots if slot.total_of is not None}
    remaining = elapsed = ""
    for slot in shape.slots:
        figure, unit = _figure(slot.name) if slot.name else None, slot.unit
        duration = "duration" if slot.kind == "clock" else _SECONDS.get(unit, "s")
        if slot.kind not in ("number", "clock") or slot.total_of is not None:
            continue
        if figure == "eta" and not remaining:
            remaining = slot.group = "eta"
            if slot.kind == "number":
                remaining = slot.group = ""  # a number alone is seconds, minutes or steps
        elif figure is not None and _METRICS.get(figure, "") not in ("", *told):
            metric = _METRICS[figure]
            if slot.kind == "clock" and metric not in ("step_s", "data_wait_s"):
                continue
            slot.group = _group(figure, shape)
            scale = _scale(metric, slot, duration)
            emits.append(f'{{ metric = "{metric}", field = "{slot.group}"{scale} }}')
            told.append(metric)
        elif _ELAPSED.match(slot.name.rsplit(" ", 1)[-1]) and slot.name:
            numbers = slot.numbers()
            if slot.kind == "clock" and not elapsed:
                elapsed = slot.group = "elapsed"
            elif unit in _SECONDS and numbers != sorted(numbers) and "step_s" not in told and slot.kind == "number":
                slot.group = _group("step_time", shape)
                emits.append(f'{{ metric = "step_s", field = "{slot.group}", unit = "{duration}" }}')
                told.append("step_s")
        else:
            emits += _by_unit(slot, unit, told, shape)
    return _counters(shape, totals, elapsed, remaining, told) + emits, told


def _by_unit(slot: _Slot, unit: str, told: list[str], shape: _Shape) -> list[str]:
    """What the unit of a figure says where its name says nothing."""
    metric, rest = {
        "s/it": ("step_s", ', unit = "s"'), "s/iter": ("step_s", ', unit = "s"'), "s/step": ("step_s", ', unit = "s"'),
        "sec/it": ("step_s", ', unit = "s"'), "sec/step": ("step_s", ', unit = "s"'),
        "ms/it": ("step_s", ', unit = "ms"'), "ms/step": ("step_s", ', unit = "ms"'),
    }.get(unit, ("", ""))  # fmt: skip
    if re.match(r"tok", unit):
        metric = "throughput_tps"
    elif unit.endswith(("/s", "/sec")) and not re.match(r"(?:it|iters?|steps?)/", unit):
        metric = "samples_per_s"
    if not metric or metric in told or slot.kind != "number":
        return []
    told.append(metric)
    slot.group = _group(metric, shape)
    return [f'{{ metric = "{metric}", field = "{slot.group}"{rest} }}']


def _scale(metric: str, slot: _Slot, duration: str) -> str:
    if metric in ("step_s", "data_wait_s"):
        return f', unit = "{duration}"'
    if metric == "mfu_pct" and slot.unit != "%" and all(number <= 1.0 for number in slot.numbers()):
        return ', unit = "ratio"'
    return ""


def _counters(shape: _Shape, totals: dict[int, _Slot], elapsed: str, remaining: str, told: list[str]) -> list[str]:
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
        if what in told:
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
            if kind and not kind.startswith("batch"):  # a batch of an epoch begins anew
                emits.append(f'{{ step = "{slot.group}", component = "trainer" }}')
        emits.append(f'{{ progress = "{what}", field = "{slot.group}"{more} }}')
        told.append(what)
    if "step" not in told:
        for slot in shape.slots:  # nothing would read them
            slot.group = "" if slot.group in ("elapsed", "eta") else slot.group
    return emits


def _group(name: str, shape: _Shape) -> str:
    used = {slot.group for slot in shape.slots}
    return next(made for made in (name, *(f"{name}_{n}" for n in range(2, 99))) if made not in used)


# --- the pack ------------------------------------------------------------------------------------------------------
def _pattern(shape: _Shape, name: str) -> tuple[str, list[str]] | None:
    """A pattern in TOML and what it tells; None for a shape of which nothing is clear, or that nothing finds."""
    emits, told = _emits(shape)
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
    rejects = [f"{needle.strip()} is the subject of this line", *_PROSE]
    others = ", ".join(dict.fromkeys(slot.name for slot in shape.slots if slot.name and not slot.group))
    text = (f"# Not read of these lines: {evidence_text(others)}.\n" if others else "") + (
        f"[[pattern]]\nid = {_quoted(name)}\nneedles = [{_quoted(needle)}]\nanchored = true\n"
        f"regex = {_quoted(''.join(parts))}\nemit = [\n"
        + "".join(f"    {emit},\n" for emit in emits)
        + f"]\nrejects = [\n{''.join(f'    {_quoted(reject)},{chr(10)}' for reject in rejects)}]\n"
    )
    return text, told


def _needle(shape: _Shape, last: int) -> str:
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


def _quoted(text: str) -> str:
    """A TOML string."""
    if "'" not in text and text.isprintable():
        return f"'{text}'"
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _opening(pack: str, header: Header | None) -> str:
    text = f'schema = 1\nid = "{pack}"\ntitle = "{pack}: learned from a log"\nrank = 100\n\n'
    if header is not None:
        samples = ", ".join(map(_quoted, header.samples))
        text += (
            f'[[header]]\nid = "clock"\nregex = {_quoted(header.regex)}\ntime = {_quoted(header.time)}\n'
            f"samples = [{samples}]\n\n"
        )
    return text


def _checked(pack: str, header: Header | None, pattern: str, shape: _Shape, packs: Sequence[Pack]) -> str | None:
    """The samples of a pattern in TOML; None where the pattern is not what it is meant to be."""
    loaded = _loaded(_opening(pack, header) + pattern)
    if loaded is None:
        return None
    (compiled,) = compile_patterns([loaded])
    reader = HeaderReader([*packs, loaded])
    if any(_observed(compiled, reader, text) is not None for text in (*_PROSE, *loaded.patterns[0].rejects)):
        return None
    chosen = [shape.texts[0], *([shape.texts[len(shape.texts) // 2]] if len(shape.texts) > 2 else [])]
    text = ""
    for line in dict.fromkeys(map(evidence_text, chosen)):
        gives = _observed(compiled, reader, line)
        if gives is None:
            return None
        shown = ", ".join(f"{metric} = {value!r}" for metric, value in gives.items())
        text += f"\n[[pattern.sample]]\ntext = {_quoted(line)}\n" + (f"gives = {{ {shown} }}\n" if shown else "")
    return text if text and _loaded(_opening(pack, header) + pattern + text) is not None else None


def _loaded(toml: str) -> Pack | None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "learned.toml"
        path.write_text(toml, encoding="utf-8")
        with suppress(PerfmonError):
            return load_pack(path)
    return None


def _observed(compiled: CompiledPattern, reader: HeaderReader, line: str) -> dict[str, float] | None:
    """The metrics that a pattern reads from a line, None when it does not recognise it."""
    message, named = reader.message(line)
    if not any(needle in line for needle in compiled.pattern.needles):
        return None
    values: dict[str, Any] | None = compiled.fields(message if compiled.pattern.anchored else line)
    if values is None:
        return None
    problems: list[str] = []
    observations = compiled.observe({**named, **values}, problems)
    return {told[1]: told[2] for told in observations if told[0] == SAMPLE}
