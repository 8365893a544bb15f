"""A broken format file is told in one line: file, key and what was expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfmon.core.errors import DataFileError, PerfmonError
from perfmon.sources.formats.loader import BUILTIN, load_pack, load_packs
from perfmon.sources.scan.scanner import Scanner

PACK = """
schema = 1
id = "mine"
title = "my trainer"
rank = 5

[[header]]
id = "clock"
regex = '<{time}>'
time = "%H:%M:%S"

[[pattern]]
id = "step"
needles = ["my step "]
regex = 'my step (?P<step>\\d+) took (?P<took>.+)'
emit = [{ metric = "step_s", field = "took", unit = "duration" }]
"""


def write(folder: Path, text: str, name: str = "mine.toml") -> Path:
    """A format file with this text."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_sound_pack_is_read(tmp_path: Path) -> None:
    pack = load_pack(write(tmp_path, PACK))
    assert (pack.id, pack.rank, [pattern.name for pattern in pack.patterns]) == ("mine", 5, ["mine/step"])
    records = Scanner([pack]).scan(b"<10:00:03> my step 4 took 1m 2s\n<10:00:05> my step 5 took 850ms\n").records
    assert [record[5] for record in records if record[0] >= 0] == [[(0, "step_s", 62.0, "")], [(0, "step_s", 0.85, "")]]


@pytest.mark.parametrize(
    ("old", "new", "key", "expected"),
    [
        ("schema = 1", "schema = 2", "schema", "expected 1"),
        ('id = "mine"\n', "", "id", "missing, expected a string"),
        ('id = "mine"', 'id = "my trainer"', "id", "expected a word of letters"),
        ('id = "step"', 'id = "../step"', "pattern[0].id", "expected a word of letters"),
        ('title = "my trainer"', "title = 7", "title", "expected a string"),
        ('title = "my trainer"', 'title = "my\\u001b[2J"', "title", "expected a line of text"),
        ("rank = 5", 'rank = "first"', "rank", "expected a number"),
        ("rank = 5", "rank = inf", "rank", "expected a number"),
        ("rank = 5", "ranks = 5", "ranks", "unknown key, expected one of busy_metric, component, "),
        ("rank = 5", "generic = 1", "generic", "expected true or false"),
        ("rank = 5", "healthy = [1]", "healthy", "expected a string or a list of strings"),
        ("rank = 5", "pattern = 3", "file", "not valid TOML"),
        ("rank = 5", "rank = 5 6", "file", "not valid TOML"),
        ('needles = ["my step "]', "needles = []", "pattern[0].needles", "expected a string or a list"),
        ('"my step "', '"my"', "pattern[0].needles", "'my' is too short"),
        (r"(?P<step>\d+)", r"(?P<step>\d+", "pattern[0].regex", "not a valid regular expression (missing )"),
        (r"(?P<step>\d+)", r"\d{9999999999}", "pattern[0].regex", "not a valid regular expression"),
        ("needles =", 'style = "csv"\nneedles =', "pattern[0].style", "expected one of regex, kv, "),
        ("needles =", 'style = "kv"\nneedles =', "pattern[0].regex", "style 'kv' reads a group named body"),
        ("needles =", 'sample = [{ txt = "x" }]\nneedles =', "pattern[0].sample[0].txt", "unknown key"),
        (
            "needles =",
            'sample = [{ text = "x", gives = { a = "1" } }]\nneedles =',
            "pattern[0].sample[0].gives",
            "numbers",
        ),
        ('unit = "duration"', 'unit = "fortnights"', "pattern[0].emit[0].unit", "expected one of , us, ms, s, "),
        (
            'metric = "step_s"',
            'metric = "step_s", mark = "x"',
            "pattern[0].emit[0]",
            "expected exactly one of metric, ",
        ),
        ('metric = "step_s", ', "", "pattern[0].emit[0]", "expected exactly one of metric, "),
        ('field = "took", ', "", "pattern[0].emit[0].field", "missing, expected the field that holds the value"),
        ('metric = "step_s"', 'span = "train-step"', "pattern[0].emit[0].duration", "missing, expected the field"),
        ('unit = "duration"', 'when = ["took"]', "pattern[0].emit[0].when", "expected [field, text]"),
        (
            'unit = "duration"',
            'over = "tok"',
            "pattern[0].emit[0]",
            "reads 'tok', expected a group of the regex: step, took",
        ),
        ("<{time}>", "<time>", "header[0].regex", "expected {time} exactly once"),
        ("<{time}>", "(<{time}>", "header[0].regex", "not a valid regular expression"),
        ("<{time}>", "(?i)<{time}>", "header[0].regex", "not a valid regular expression"),
        ("%H:%M:%S", "%H:%M:%Q", "header[0].time", "unknown directive %Q, expected one of %Y %m "),
        ("%H:%M:%S", "%Y-%m-%d", "header[0].time", "expected at least %H, %M and %S, or %s"),
    ],
)
def test_a_mistake_is_told_with_file_key_and_what_was_expected(
    tmp_path: Path, old: str, new: str, key: str, expected: str
) -> None:
    assert old in PACK
    path = write(tmp_path, PACK.replace(old, new, 1))
    with pytest.raises(DataFileError) as caught:
        load_pack(path)
    error = caught.value
    assert (error.file, error.key) == (str(path), key)
    assert expected in error.expected
    assert "\n" not in str(error)


READING = """
schema = 1
id = "mine"
title = "what is polled"

[[pattern]]
id = "disk"
reading = "disk"
where = { holds = "logs" }
emit = [{ metric = "disk_used_pct", field = "used_pct", group = "host:name", where = { used_pct = "9.*" } }]
"""


def test_a_pattern_of_readings_is_asked_with_their_values_and_words(tmp_path: Path) -> None:
    scanner = Scanner([load_pack(write(tmp_path, READING))])
    line = b"[poll] disk host=a name=/ used_pct=%b holds=%b\n"
    message = [
        [record[5] for record in scanner.scan(line % result).records if record[0] >= 0]
        for result in ((b"91.5", b"logs"), (b"91.5", b"logs+x"), (b"15", b"logs"))
    ]
    assert message == [[[(0, "disk_used_pct", 91.5, "a:/")]], [], [[]]]


@pytest.mark.parametrize(
    ("old", "new", "key", "expected"),
    [
        ('reading = "disk"', 'reading = "drive"', "pattern[0].reading", "expected one of gpu, process, host, disk"),
        ('reading = "disk"', 'reading = "disk"\nregex = "x"', "pattern[0].reading", "without needles, regex and style"),
        ('reading = "disk"', 'needles = ["disk"]\nregex = "x"', "pattern[0].where", "expected together with `reading`"),
        ('holds = "logs"', 'holds = "("', "pattern[0].where.holds", "not a valid regular expression"),
        ('holds = "logs"', "holds = 1", "pattern[0].where.holds", "expected a string"),
    ],
)
def test_what_is_wrong_with_a_pattern_of_readings_is_told(
    tmp_path: Path, old: str, new: str, key: str, expected: str
) -> None:
    with pytest.raises(DataFileError) as caught:
        load_pack(write(tmp_path, READING.replace(old, new, 1)))
    assert caught.value.key == key
    assert expected in caught.value.expected


def test_a_pattern_id_given_twice_is_told(tmp_path: Path) -> None:
    again = PACK[PACK.index("[[pattern]]") :]
    with pytest.raises(DataFileError, match=r"mine\.toml: pattern: id 'step' is given twice"):
        load_pack(write(tmp_path, PACK + again))


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00"], ids=["missing", "not UTF-8"])
def test_an_unreadable_file_is_told(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "mine.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(PerfmonError, match=r"mine\.toml: file: cannot be read"):
        load_pack(path)


def test_a_user_pack_with_a_known_id_replaces_the_built_in_one(tmp_path: Path) -> None:
    write(tmp_path, PACK.replace('id = "mine"', 'id = "trace"'))
    packs = load_packs([tmp_path])
    assert [pack.title for pack in packs if pack.id == "trace"] == ["my trainer"]
    assert [pack.id for pack in packs].count("trace") == 1
    assert len(packs) == len(load_packs())


def test_a_later_folder_wins_and_rank_orders(tmp_path: Path) -> None:
    for name, title in (("first", "one"), ("second", "two")):
        (tmp_path / name).mkdir()
        write(tmp_path / name, PACK.replace("my trainer", title))
    packs = load_packs([tmp_path / "first", tmp_path / "second", tmp_path / "absent"])
    assert (packs[0].id, packs[0].title) == ("mine", "two")
    assert [pack.rank for pack in packs] == sorted(pack.rank for pack in packs)
    assert packs[-1].generic


@pytest.mark.parametrize("path", sorted(BUILTIN.glob("*.toml")), ids=lambda path: path.stem)
def test_packs_that_come_along_pass_all_checks(path: Path) -> None:
    checked, trusted = str(load_pack(path)), str(load_pack(path, trusted=True))  # as text: a sample's value may be NaN
    assert checked.replace("trusted=False", "trusted=True") == trusted
