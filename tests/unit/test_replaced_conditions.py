"""Signature files of users' own that hold conditions as they were once written: one line says what to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_conditions import HEAD, ON_KV

from perfmon.core.errors import DataFileError
from perfmon.rules.conditions import KINDS
from perfmon.rules.signatures import load_signature

KINDS_THEN = {
    "threshold": '"compare"',
    "aggregate": '"compare"',
    "ratio": '"compare"',
    "outweighs": '"compare", with at_least in place of over',
    "fits": '"compare", with at_most in place of whole',
    "takes": '"compare"',
    "coincides": '"overlap"',
    "ready": '"overlap", with ended_before in place of share (which was 0.3 where left out)',
    "baseline": '"duration" with than = "undisturbed"',
    "overlong": '"duration" with than = "earlier"',
    "advances": '"progress" with what = "steps"',
    "drift": '"trend" with shape = "fall"',
    "grows": '"trend" with shape = "growth"',
    "jump": '"trend" with shape = "jump"',
    "nonfinite": '"trend" with shape = "not-finite"',
    "periodic": '"trend" with shape = "periodic"',
    "lasts": '"steady"',
    "unchanged": '"steady"',
    "trickle": '"peers" with what = "trickle"',
    "prevails": '"peers" with what = "most-often"',
    "tells": '"has"',
    "last-word": '"death"',
}
MISSED = {
    "step": '"duration" with than = "rhythm"',
    "usual": '"duration" with than = "usual"',
    "rhythm": '"duration" with than = "rhythm"',
    "going-on": '"progress" with what = "work"',
    "spans": '"progress" with what = "no-reported-work"',
    "lines": '"progress" with what = "other-logs"',
    "busy-log": '"progress" with what = "busy-log"',
}
COMPARE = 'type = "compare"\nmetric = "kv_usage"\nabove = 90\n'


def _message_of(folder: Path, toml: str) -> str:
    path = folder / "mine.toml"
    path.write_text(f"{HEAD}{ON_KV}[[condition]]\n{toml}")
    with pytest.raises(DataFileError) as caught:
        load_signature(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: condition[0].")
    assert len(text.splitlines()) == 1
    return text.removeprefix(f"{path}: condition[0].")


@pytest.mark.parametrize(("kind", "now"), KINDS_THEN.items())
def test_a_kind(tmp_path: Path, kind: str, now: str) -> None:
    assert kind not in KINDS
    assert _message_of(tmp_path, f'type = "{kind}"\n') == f'type: "{kind}" is now {now}'


@pytest.mark.parametrize(("what", "now"), MISSED.items())
def test_what_was_missed(tmp_path: Path, what: str, now: str) -> None:
    assert _message_of(tmp_path, f'type = "missed"\nwhat = "{what}"\n') == f'type: "missed" is now {now}'


def test_the_one_kind_whose_name_stayed(tmp_path: Path) -> None:
    assert _message_of(tmp_path, 'type = "peers"\nmetric = "running"\n').startswith(
        'what: missing, expected what = "busiest"'
    )


@pytest.mark.parametrize(
    ("flag", "now"),
    [
        ("required = false", 'role = "supporting"'),
        ("required = true", 'role = "required", or nothing'),
        ("gate = true", 'role = "gate"'),
        ("gate = false", "nothing"),
        ("optional = true", 'if_missing = "pass"'),
        ("optional = false", "nothing"),
    ],
)
def test_a_flag(tmp_path: Path, flag: str, now: str) -> None:
    name = flag.partition(" ")[0]
    assert _message_of(tmp_path, f"{COMPARE}{flag}\n") == f"{name}: no longer a key, expected {now} in place of {flag}"


def test_inside_of_others(tmp_path: Path) -> None:
    compare = ", ".join(COMPARE.splitlines())
    toml = f'type = "any"\nof = [\n{{ {compare} }},\n{{ type = "tells", names = "a" }},\n]\n'
    assert _message_of(tmp_path, toml) == 'of[1].type: "tells" is now "has"'


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ('role = "optional"\n', "role: expected one of required, supporting, gate"),
        ('if_missing = "skip"\n', "if_missing: expected one of fail, pass"),
    ],
)
def test_what_a_role_may_be(tmp_path: Path, toml: str, message: str) -> None:
    assert _message_of(tmp_path, COMPARE + toml) == message
