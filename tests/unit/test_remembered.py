"""What was picked holds the next time, and never stands in the way."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perfmon.core.user_state import load_state, loaded_state, remember


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the state of this test's user lies."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "perfmon"


def test_what_was_remembered_is_recalled(folder: Path) -> None:
    assert load_state("theme") is None
    assert remember("theme", "mono")
    assert remember("layout", "strip")
    assert remember("theme", "daylight")
    assert loaded_state() == {"theme": "daylight", "layout": "strip"}
    assert os.listdir(folder) == ["remembered.json"], "nothing is left of writing it"


def test_it_is_for_its_owner_alone(folder: Path) -> None:
    remember("theme", "mono")
    assert (folder.stat().st_mode & 0o777, (folder / "remembered.json").stat().st_mode & 0o777) == (0o700, 0o600)


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"theme": 3}', "\udcff", "[" * 100_000, '{"a": "' + "x" * 70_000])
def test_a_broken_file_says_nothing_and_is_replaced(folder: Path, text: str) -> None:
    folder.mkdir()
    (folder / "remembered.json").write_bytes(text.encode(errors="surrogateescape"))
    assert load_state("theme") is None
    assert remember("theme", "mono")
    assert load_state("theme") == "mono"


def test_what_cannot_be_kept_is_no_error(folder: Path) -> None:
    folder.write_text("a file where the folder should be")
    assert not remember("theme", "mono")
    assert load_state("theme") is None


def test_a_link_is_replaced_not_followed(folder: Path, tmp_path: Path) -> None:
    folder.mkdir()
    (tmp_path / "precious").write_text("kept")
    (folder / "remembered.json").symlink_to(tmp_path / "precious")
    assert remember("theme", "mono")
    assert (tmp_path / "precious").read_text() == "kept"


def test_without_a_state_home_it_lies_below_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "not/absolute")
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    assert remember("theme", "mono")
    assert (tmp_path / "me/.local/state/perfmon/remembered.json").exists()
