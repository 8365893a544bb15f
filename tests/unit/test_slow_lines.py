"""No line of 64 KB stops the reader: each regex is attacked at each of its places, in processor time."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from attacks import SIZE, attacks

from perfmon.core import credential_rules, credentials
from perfmon.core.config import Config
from perfmon.core.model import Block
from perfmon.pipeline.session import Session
from perfmon.sources.formats import bar_frames, fields, step_lines, timestamps
from perfmon.sources.formats.compiled import compile_patterns
from perfmon.sources.formats.fields import PREFIXES, READERS
from perfmon.sources.formats.loader import load_pack, load_packs
from perfmon.sources.formats.schema import Pack
from perfmon.sources.pollers import reading
from perfmon.sources.scan.scanner import Scanner

PACKS = load_packs()
SCANNER = Scanner(PACKS)
_REFERENCE = re.compile("a*b"), "a" * 6500
"""A search of 21 million steps: about 20 ms on a machine of today, and more wherever an attack takes more."""


def _processor_s(work: Callable[[], object], times: int = 1) -> float:
    taken = []
    for _ in range(times):
        begun = time.process_time()
        work()
        taken.append(time.process_time() - begun)
    return min(taken)


def _reference() -> float:
    regex, text = _REFERENCE
    return _processor_s(lambda: regex.search(text), 3)


pytestmark = pytest.mark.slow  # each pattern is attacked at each of its cut points
LIMIT = _reference()


def slow(work: Callable[[str], object], lines: Iterable[str], most: float = 1.0) -> list[tuple[float, str]]:
    """Lines that take longer than `most` references, in multiples of one; those are measured again."""
    found = []
    for line in lines:
        if _processor_s(lambda line=line: work(line)) > most * LIMIT / 2:  # type: ignore[misc]
            again = _processor_s(lambda line=line: work(line), 5) / _reference()  # type: ignore[misc]
            if again > most:
                found.append((again, line[:80]))
    return found


def each_once(regexes: Iterable[str]) -> Iterator[str]:
    """The attacks on some regexes; most of them share many."""
    seen: set[int] = set()
    for line in (line for regex in regexes for line in attacks(regex)):
        if hash(line) not in seen:
            seen.add(hash(line))
            yield line


@pytest.mark.parametrize("pack", [pytest.param(pack, id=pack.id) for pack in PACKS])
def test_every_pattern_reads_any_line_quickly(pack: Pack) -> None:
    for compiled in compile_patterns([pack]):
        pattern = compiled.pattern
        if not pattern.reading:
            assert (pattern.name, slow(compiled.fields, attacks(pattern.regex, pattern.needles))) == (pattern.name, [])
        for where in (pattern.where, *(emit.where for emit in pattern.emit)):
            for regex in map(re.compile, where.values()):
                assert (regex.pattern, slow(regex.fullmatch, attacks(regex.pattern, (), 4096))) == (regex.pattern, [])


def test_headers_and_prefixes_are_read_quickly() -> None:
    headers = SCANNER.headers
    regexes = [PREFIXES, fields.LEVEL.pattern, fields.NAMED.pattern, fields.JOURNAL.pattern]
    for pack in PACKS:
        regexes += [head.regex.replace("{time}", timestamps.time_regex(head.time)) for head in pack.headers]

    def work(line: str) -> object:
        return headers.read(line), headers.at_start(line), headers.field(line), headers.message(line)

    assert slow(work, each_once(regexes)) == []
    assert slow(work, ("10:00:00 " + line for line in each_once(regexes))) == []


@pytest.mark.parametrize("style", READERS)
def test_fields_are_read_quickly(style: str) -> None:
    read = READERS[style]  # type: ignore[index]
    own = [
        value
        for module in (bar_frames, fields, step_lines)
        for value in vars(module).values()
        if isinstance(value, re.Pattern)
    ]
    assert slow(read, each_once(regex.pattern for regex in own)) == []


def test_lines_of_pollers_are_read_quickly() -> None:
    regex = reading._LINE.pattern
    assert slow(reading.parse_reading, attacks(regex, ["[poll] queue host=a name=b "])) == []


def test_credentials_are_found_quickly() -> None:
    """Of a line a quarter comes first: its costs, and how they have grown, show of most that the whole is not slow."""
    most, seen = 16.0, set()

    def cost_s(line: str) -> float:
        return _processor_s(lambda: credentials.credential_spans(line))

    for words, regex in (
        *credential_rules.WORD_RULES,
        *(((sign,), regex) for sign, regex in credential_rules.SHAPE_RULES),
    ):
        suspects = []
        sizes = (attacks(regex, words[:2], size) for size in (SIZE // 16, SIZE // 4, SIZE))
        for sixteenth, quarter, line in zip(*sizes, strict=True):
            if quarter in seen:
                continue
            seen.add(quarter)
            took_s = cost_s(quarter)
            if took_s > most * LIMIT / 10 or (took_s > most * LIMIT / 32 and took_s > 6 * cost_s(sixteenth)):
                suspects.append(line)
        assert (regex, slow(credentials.credential_spans, suspects, most)) == (regex, [])


@pytest.mark.parametrize("frame", ["Train: 10%|# | 1/10 [00:01<00:09, 1.00it/s]", "1it [00:01, 1.0it/s]"])
def test_a_line_of_frames_alone_is_read_without_end(frame: str) -> None:
    scanned = SCANNER.scan((frame * (SIZE // len(frame)) + "\n").encode())
    assert scanned.lines == 1
    assert 1 < len(scanned.records) < 200


def test_a_slow_pattern_of_the_user_is_named_and_left_out(tmp_path: Path) -> None:
    pack = tmp_path / "mine.toml"
    pack.write_text(
        'schema = 1\nid = "mine"\ntitle = "Mine"\nrank = 1\n'
        "[[pattern]]\nid = 'endless'\nneedles = ['mystep']\nregex = 'mystep (?:(?:\\w+)?(?:\\w+)?(?:\\w+)?)+ end'\n"
        "emit = [{ mark = 'endless' }]\n"
        "[[pattern]]\nid = 'quick'\nneedles = ['mystep']\nregex = 'mystep (?P<n>\\d+) took (?P<s>\\d+)s'\n"
        "emit = [{ metric = 'step_s', field = 's', unit = 's' }]\n",
        encoding="utf-8",
    )
    assert not load_pack(pack).patterns[0].trusted
    session = Session(Config(format_dirs=(tmp_path,)))
    source = session.add_source("train.log")
    lines = [f"mystep {'a' * 4000}!", "mystep 3 took 4s", f"mystep {'a' * 4000}!", "mystep 4 took 5s"]
    session.feed(source, Block("\n".join([*lines, ""]).encode(), 0, 1))
    notes = [note for note in source.notes if "mine/endless" in note]
    assert notes == ["line 1: pattern mine/endless takes longer than 50 ms and is no longer used: simplify its regex"]
    assert session.scanner.patterns[0].pattern.name == "mine/endless"
    assert source.patterns == {1: 2}


def test_a_slow_header_of_the_user_is_named_and_left_out(tmp_path: Path) -> None:
    pack = tmp_path / "mine.toml"
    pack.write_text(
        'schema = 1\nid = "mine"\ntitle = "Mine"\nrank = 1\n'
        "[[header]]\nid = 'endless'\nregex = '(?:(?:\\w+)?(?:\\w+)?(?:\\w+)?)+[!?]+ {time}'\n"
        "time = '%Y-%m-%d %H:%M:%S'\n"
        "[[pattern]]\nid = 'step'\nneedles = ['mystep']\nregex = 'mystep (?P<n>\\d+) took (?P<s>\\d+)s'\n"
        "emit = [{ metric = 'step_s', field = 's', unit = 's' }]\n",
        encoding="utf-8",
    )
    session = Session(Config(format_dirs=(tmp_path,)))
    source = session.add_source("train.log")
    lines = ["2026-08-21 10:00:01 mystep 1 took 4s", f"{'a' * 4000}! 10:00:0x mystep 2 took 4s"]
    lines += ["2026-08-21 10:00:03 mystep 3 took 4s", f"{'a' * 4000}! 10:00:0x mystep 4 took 4s"]
    session.feed(source, Block("\n".join([*lines, ""]).encode(), 0, 1))
    notes = [note for note in source.notes if "mine/endless" in note]
    assert notes == ["line 1: header mine/endless takes longer than 50 ms and is no longer used: simplify its regex"]
    assert source.patterns == {0: 4}
    first, last = source.first, source.last
    assert first is not None
    assert last is not None
    assert last - first == 2.0


def test_a_slow_condition_of_the_user_is_named_and_left_out(tmp_path: Path) -> None:
    pack = tmp_path / "mine.toml"
    pack.write_text(
        'schema = 1\nid = "mine"\ntitle = "Mine"\nrank = 1\n'
        "[[pattern]]\nid = 'endless'\nneedles = ['mystep']\nregex = 'mystep (?P<n>\\d+) of (?P<name>.*)'\n"
        "emit = [{ metric = 'step_s', field = 'n', unit = 's', "
        "where = { name = '(?:(?:\\w+)?(?:\\w+)?(?:\\w+)?)+[.?]+' } }]\n",
        encoding="utf-8",
    )
    session = Session(Config(format_dirs=(tmp_path,)))
    source = session.add_source("train.log")
    lines = ["mystep 1 of a?", f"mystep 2 of {'a' * 4000}!", f"mystep 3 of {'a' * 4000}!"]
    session.feed(source, Block("\n".join([*lines, ""]).encode(), 0, 1))
    notes = [note for note in source.notes if "mine/endless" in note]
    assert notes == ["line 2: pattern mine/endless takes longer than 50 ms and is no longer used: simplify its regex"]
