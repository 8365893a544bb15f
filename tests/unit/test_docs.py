"""The documentation says what the program does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from perfmon.cli import main
from perfmon.commands import COMMANDS
from perfmon.commands._screen import check_keys
from perfmon.core.config import load_config
from perfmon.rules.bands import load_bands
from perfmon.rules.signatures import load_signature
from perfmon.sources.formats.loader import load_pack
from perfmon.themes.loader import load_themes
from perfmon.tui.actions import by_key

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.slow
def test_generated_parts_have_not_drifted() -> None:
    command, env = [sys.executable, "docs/refresh.py", "--check"], {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), "run `make docs`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    links = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", text)
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md", "docs/performance.md"])
def test_files_that_a_contributor_is_led_to_exist(page: str) -> None:
    names = set(re.findall(r"`([\w./-]+\.(?:py|toml|md|c|h))`", (ROOT / page).read_text()))
    missing = {name for name in names if not name.endswith("NAME.toml") and not any(ROOT.glob(name))}
    folders = ("perfmon", "sources", "rules", "tui", "themes", "tests", "lab", "bench")
    known = {path for folder in folders for path in map(str, (ROOT / folder).rglob("*.*"))}
    assert [name for name in sorted(missing) if not any(path.endswith(f"/{name}") for path in known)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_that_are_mentioned_exist(page: Path) -> None:
    mentioned = set(re.findall(r"`perfmon ([a-z]\w*)", page.read_text()))
    assert mentioned <= set(COMMANDS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_options_that_are_mentioned_exist(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command, options in re.findall(
        rf"perfmon ((?:rules|export) [a-z-]+|{'|'.join(COMMANDS)})([^`'\"\n|]*)", page.read_text()
    ):
        if "--" not in options:
            continue
        main([*command.split(), "--help"])
        assert set(re.findall(r"--[a-z][\w-]*", options)) <= set(re.findall(r"--[\w-]+", capsys.readouterr().out))


def test_the_readme_stays_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


def test_make_targets_of_the_readme_exist() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"\bmake ([a-z-]+)`?", (ROOT / "README.md").read_text())) <= set(targets)


def toml_blocks(page: str, folder: Path) -> list[Path]:
    """The TOML blocks of a page, as files."""
    files = []
    for index, text in enumerate(re.findall(r"```toml\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)):
        files.append(folder / f"{index}.toml")
        files[-1].write_text(text)
    return files


def test_the_guides_data_files_are_read(tmp_path: Path) -> None:
    signature, bands, pack = toml_blocks("CONTRIBUTING.md", tmp_path)
    assert {example.fires for example in load_signature(signature).examples} == {True, False}
    assert load_bands([bands]).table["gpu_busy"].unless == ("weight-update", "staleness")
    assert [pattern.id for pattern in load_pack(pack).patterns] == ["step"]


def test_the_theme_of_the_guide_is_read(tmp_path: Path) -> None:
    (file,) = toml_blocks("docs/themes.md", tmp_path)
    theme = load_themes([tmp_path])[file.stem]
    assert (theme.title, theme.styles["queue"].colour, theme.sixteen["queue"].colour) == (
        "Dusk",
        "#ff7b54",
        "bright-red",
    )


@pytest.mark.parametrize("page", ["docs/configuration.md", "docs/monitor.md"])
def test_keys_that_are_shown_belong_to_actions(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("formats", "signatures"):
        (tmp_path / folder).mkdir()
    (tmp_path / "our-cluster.toml").touch()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)
    (settings,) = toml_blocks(page, tmp_path)
    config = load_config(settings)
    check_keys(config)
    shared = [key for key, actions in by_key(config.keys).items() if len({a.panes for a in actions}) < len(actions)]
    assert config.keys
    assert shared == []


def test_pictures_that_are_shown_are_made() -> None:
    shown = {link for page in PAGES for link in re.findall(r"images/([\w-]+)\.svg", page.read_text())}
    made = set(re.findall(r'Shot\("([\w-]+)"', (ROOT / "docs" / "screenshots.py").read_text()))
    assert shown == made


def test_the_settings_of_the_guide_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("formats", "signatures"):
        (tmp_path / folder).mkdir()
    (tmp_path / "our-cluster.toml").touch()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)
    (settings,) = toml_blocks("docs/configuration.md", tmp_path)
    assert load_config(settings).signature_dirs == (tmp_path / "signatures",)
