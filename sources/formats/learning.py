"""Proposes a format pack from the lines of a log that no pattern recognises.

Lines of one shape are found by what is left of them without their figures. A shape is proposed when at least one of
its figures has a clear meaning: a step counter that grows, a loss, a duration, a rate. What the figures are called is
taken from the words next to them, the clock from how most lines begin. The pack holds samples from the log and is
checked before it is handed over: it loads, it recognises these samples, and it reads no sentence.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfmon.core import ESCAPES, SAMPLE, InputError, Notice, PerfmonError, UsageError, evidence_text, user_folder

from .compiled import CompiledPattern, compile_patterns, too_slow
from .learned_patterns import (
    CLOCK,
    LEAST_LINES,
    PROSE,
    Shape,
    Slot,
    name_of_slot,
    opening_of,
    pattern_of,
    quoted,
)
from .loader import load_pack
from .schema import Header, Pack
from .timestamps import HeaderReader, time_regex

_MOST_SHAPES, _MOST_VALUES, _MOST_PATTERNS = 20_000, 500, 24
_LONGEST = 2000
_MOST_WORDS = 12
"""A line with more words of letters alone in a row than that is prose."""
_TIMES = (
    "%Y-%m-%d_%H:%M:%S%f", "%Y.%m.%d %H:%M:%S%f", "%Y/%m/%d-%H:%M:%S%f", "%Y%m%d-%H:%M:%S%f", "%Y%m%d_%H:%M:%S%f",
    "%Y-%m-%d %H:%M:%S%f", "%d-%m-%Y %H:%M:%S%f", "%d/%m/%Y %H:%M:%S%f", "%H:%M:%S%f",
)  # fmt: skip
_TOKEN = re.compile(
    rf"""(?P<clock>(?<![\w.:]){CLOCK}(?![\w:]))
    |(?P<key>"[^"]{{1,80}}"\s?:|'[^']{{1,80}}'\s?:)
    |(?P<quoted>"(?![-+\d.:]+[\w%]{{0,3}}")[^"]{{0,400}}"|'(?![-+\d.:]+[\w%]{{0,3}}')[^']{{0,400}}')
    |(?P<hex>\b0x[\da-f]+\b|\b(?=[a-f]*\d)(?=\d*[a-f])[\da-f]{{7,}}\b)
    |(?P<path>(?<![\w./])(?:\w+://|[~.]{{0,2}}/)[\w./~%+=?&:@-]{{2,}}|(?<![\w./])(?:[\w.-]+/){{2,}}[\w.-]*[A-Za-z][\w.-]*)
    |(?P<number>(?:(?<![\w.])[-+]?|(?<=\b[A-Za-z])(?=\d+/\d)|(?<=\b[A-Za-z]{{2}})(?=\d+/\d))
        (?:(?:\d+(?:,\d{{3}})*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?(?:[KMB](?!\w))?|(?:nan|inf)\b))""",
    re.VERBOSE,
)

_LOOSE = re.compile(rf"(?P<word>\b(?![A-Za-z]{{1,2}}\d+/\d)[A-Za-z_]+\d\w{{0,60}}\b)|{_TOKEN.pattern}", re.VERBOSE)
"""The same with identifiers that hold a figure (`req7f`, `batch_12a`): each line may have its own."""


class NothingLearnedError(InputError):
    """A log holds no lines that a format could be made from; the message states why."""


@dataclass(slots=True)
class Proposal:
    """A format pack, not yet on disk."""

    toml: str
    lines: int
    """Of the log that were looked at."""
    recognised: int
    """Those of the shapes that the pack reads."""
    found: tuple[str, ...]
    """Names of the metrics and counters that it reads."""


def propose(lines: Iterable[str], pack: str, packs: Sequence[Pack], known: Callable[[str], bool]) -> Proposal:
    """A pack with that id for lines (without line ends) that `packs` do not read; `known` returns which lines they do.

    Raises NothingLearnedError, in one line, where there is nothing to learn.
    """
    texts = [text for text in lines if text.strip() and len(text) <= _LONGEST]
    if not texts:
        raise NothingLearnedError("no lines of text")
    header = _clock_of(texts, HeaderReader(packs))
    readers = [*packs, *([_header_pack(header)] if header is not None else [])]
    repeated: list[Shape] = []
    for token in (_TOKEN, _LOOSE):
        shapes = _shapes(texts, HeaderReader(readers), token)
        repeated = repeated or [shape for shape in shapes if shape.count >= LEAST_LINES]
    repeated.sort(key=lambda shape: -shape.count)
    if not repeated:
        raise NothingLearnedError(f"none of its {len(texts)} lines repeats a shape")
    pieces: list[tuple[Shape, str]] = []
    names: Counter[str] = Counter()
    for shape in repeated:
        if len(pieces) == _MOST_PATTERNS or known(shape.texts[0]):
            continue
        made = pattern_of(shape, f"line-{len(pieces) + 1}")
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
        opening_of(pack, header) + body,
        len(texts),
        sum(shape.count for shape, _ in pieces),
        tuple(dict.fromkeys(names)),
    )


def sample_problems(pack: Pack, packs: Sequence[Pack]) -> list[str]:
    """Faults of a pack that its own samples and rejects show, one line each; `packs` are the other ones."""
    problems = []
    reader = HeaderReader([*packs, pack])
    for compiled in compile_patterns([pack]):
        name = compiled.pattern.name
        for sample in compiled.pattern.samples:
            gives = _observed(compiled, reader, sample.text)
            if gives is None and compiled.is_slow:
                problems.append(too_slow(name))
                break
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
    """The header of most lines that no header reads, where they begin with a time."""
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
    return Pack("learned", "", "", 100, idle_silence=False, generic=False, headers=(header,), patterns=())


# --- shapes --------------------------------------------------------------------------------------------------------
def _shapes(texts: Sequence[str], reader: HeaderReader, token: re.Pattern[str]) -> list[Shape]:
    shapes: dict[tuple[str, ...], Shape] = {}
    for number, text in enumerate(texts):
        message, _ = reader.message(text)
        slots, tail = _cut(message, token)
        if not slots or _is_prose(message):
            continue
        key = (*(part for slot in slots for part in (" ".join(slot.before.split()), slot.kind)), tail.strip())
        shape = shapes.get(key)
        if shape is None:
            if len(shapes) >= _MOST_SHAPES:
                continue
            shape = shapes[key] = Shape(slots, tail, first=number)
        shape.count += 1
        if len(shape.texts) < _MOST_VALUES:
            shape.texts.append(text)
            if shape.count > 1:
                for slot, other in zip(shape.slots, slots, strict=True):
                    slot.values += other.values
    for shape in shapes.values():
        name_of_slot(shape)
    return list(shapes.values())


def _cut(message: str, token: re.Pattern[str]) -> tuple[list[Slot], str]:
    """The slots of a message, and what stands behind the last of them."""
    slots: list[Slot] = []
    at = 0
    for found in token.finditer(message):
        if found.lastgroup == "key":
            continue
        before = message[at : found.start()]
        if slots:
            slots[-1].after = before
        slots.append(Slot(found.lastgroup or "", before, values=[found[0]]))
        at = found.end()
    if slots:
        slots[-1].after = message[at:]
    return slots, message[at:]


def _is_prose(message: str) -> bool:
    return re.search(rf"(?:\b[A-Za-z]{{2,}} ){{{_MOST_WORDS}}}", message) is not None


def _checked(pack: str, header: Header | None, pattern: str, shape: Shape, packs: Sequence[Pack]) -> str | None:
    """The samples of a pattern in TOML; None where the pattern is not what it is meant to be."""
    loaded = _loaded(opening_of(pack, header) + pattern)
    if loaded is None:
        return None
    (compiled,) = compile_patterns([loaded])
    reader = HeaderReader([*packs, loaded])
    if any(_observed(compiled, reader, text) is not None for text in (*PROSE, *loaded.patterns[0].rejects)):
        return None
    chosen = [shape.texts[0], *([shape.texts[len(shape.texts) // 2]] if len(shape.texts) > 2 else [])]
    text = ""
    for line in dict.fromkeys(map(evidence_text, chosen)):
        gives = _observed(compiled, reader, line)
        if gives is None:
            return None
        shown = ", ".join(f"{metric} = {value!r}" for metric, value in gives.items())
        text += f"\n[[pattern.sample]]\ntext = {quoted(line)}\n" + (f"gives = {{ {shown} }}\n" if shown else "")
    return text if text and _loaded(opening_of(pack, header) + pattern + text) is not None else None


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
    return {one[1]: one[2] for one in observations if one[0] == SAMPLE}


# --- Formats that are learned from logs of the user, and where they are kept ---

_MOST_BYTES = 1 << 26
_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


def format_name(log: str, chosen: str = "") -> str:
    """Return the name of the format of a log: as chosen, else like the log. UsageError for an invalid name."""
    name = chosen or re.sub(r"[^a-z0-9]+", "-", Path(log).name.split(".")[0].lower()).strip("-")[:64] or "learned"
    if _ID.fullmatch(name) is None:
        raise UsageError(f"{name}: expected small letters, digits and - in a format name")
    return name


def learn(log: str, name: str, packs: Sequence[Pack], everything: bool = False) -> Proposal:
    """Proposes the format `name` from the first 64 MB of the log that a SOURCE names; `packs` are those there are.

    With `everything` it reads lines that these read, too. Raises InputError, in one line, where nothing is learned.
    """
    from ..scan import Scanner

    others = tuple(pack for pack in packs if pack.id != name)
    scanner = Scanner(others)

    def known(line: str) -> bool:
        return not everything and bool(scanner.scan(f"{line}\n".encode()).recognised)

    try:
        return propose(_lines(log), name, others, known)
    except NothingLearnedError as error:
        raise InputError(f"{log}: {error}") from None


def keep(proposal: Proposal, target: Path) -> Path:
    """Writes a format; InputError where that cannot be."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(proposal.toml, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{target}: cannot be written ({error.strerror})") from None
    return target


def installed(name: str, packs: Sequence[Pack]) -> Path:
    """Return the file for a format of that name; UsageError for the name of a built-in one."""
    built_in = os.path.join(os.path.dirname(__file__), "")
    if any(pack.id == name and pack.file.startswith(built_in) for pack in packs):
        raise UsageError(f"{name}: name of a built-in format, choose another one")
    return user_folder() / "formats" / f"{name}.toml"


def _lines(spec: str) -> Iterator[str]:
    """The lines of one log, of progress bars every frame; InputError for what is no text."""
    from ..batch import read_blocks
    from ..discovery import discover

    logs = discover([spec])
    if len(logs) != 1:
        raise InputError(f"{spec}: {len(logs)} logs, expected one to learn from")
    size = 0
    for item in read_blocks(logs[0]):
        if isinstance(item, Notice):
            if item.kind == "lost":
                raise InputError(f"{spec}: {item.text}")
            continue
        for line in ESCAPES.sub("", item.data.decode("utf-8", "replace")).split("\n"):
            yield from (frame for frame in line.split("\r") if frame)
        size += len(item.data)
        if size >= _MOST_BYTES:
            return
