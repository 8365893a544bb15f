"""Themes can be read, by everybody; a mistake in one is told and costs no other."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest
from colours import MACHADO, contrast, distance

from perfmon.core.errors import DataFileError, UsageError
from perfmon.themes.loader import PAIRS, STYLES, TEXTS, StyleSpec, ThemeData, choose_theme, load_themes
from perfmon.tui.theme import _CAUSES

THEMES = load_themes()
COLOURED = [name for name, theme in THEMES.items() if not theme.inherits]
DECORATION = {"faint", "frame"}
"""Separators, empty tracks, lines around panes: they carry no words that matter."""


def read(folder: Path, text: str, name: str = "mine") -> ThemeData:
    (folder / f"{name}.toml").write_text("schema = 1\n" + text)
    return load_themes([folder])[name]


def colours(theme: ThemeData, name: str, ground: str = "background") -> tuple[str, str]:
    above, below = theme.styles[name].colour, theme.styles[name].background or theme.styles[ground].background
    assert above
    assert below
    return above, below


# --- the built-in ones ------------------------------------------------------------------------------------------------
def test_the_built_in_themes() -> None:
    assert set(THEMES) == {"midnight", "daylight", "high-contrast", "colour-blind", "ansi-16", "mono"}
    assert [name for name, theme in THEMES.items() if not theme.dark] == ["daylight"]
    for theme in THEMES.values():
        assert set(theme.styles) == set(theme.sixteen) == set(theme.plain) == set(STYLES)


@pytest.mark.parametrize("name", COLOURED)
def test_texts_stand_out(name: str) -> None:
    theme, least = THEMES[name], 7.0 if name == "high-contrast" else 4.5
    for style in TEXTS.keys() - DECORATION:
        assert contrast(*colours(theme, style)) >= least, style
        assert contrast(*colours(theme, style, "panel")) >= 4.5, style
        assert contrast(*colours(theme, style, "cursor")) >= 3.0, style
    for style in ("text", *PAIRS):
        assert contrast(*colours(theme, style, "cursor")) >= 4.5, style
    assert contrast(*colours(theme, "faint")) >= 3.0
    assert contrast(*colours(theme, "frame")) >= 2.0


@pytest.mark.parametrize("eyes", MACHADO)
def test_levels_are_told_apart_by_colour_blind_eyes(eyes: str) -> None:
    theme = THEMES["colour-blind"]
    for one, other in combinations(("good", "warning", "critical", "stale"), 2):
        assert distance(colours(theme, one)[0], colours(theme, other)[0], eyes) >= 25, (one, other)
    for one, other in combinations(("queue", "rpc"), 2):
        assert distance(colours(theme, one)[0], colours(theme, other)[0], eyes) >= 40, (one, other)


def _hatched(colour: str, ground: str) -> str:
    """A colour as it looks in a cell that is half filled, as lost time is drawn."""
    mixed = (int(colour[at : at + 2], 16) + int(ground[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{both // 2:02x}" for both in mixed)


@pytest.mark.parametrize("name", COLOURED)
def test_lost_time_is_told_apart_from_productive_time(name: str) -> None:
    theme = THEMES[name]
    causes = {one for one in STYLES if one.startswith("cause")} | set(_CAUSES.values()) - {"productive"}
    for eyes in MACHADO if name == "colour-blind" else ("everybody",):
        for cause in sorted(causes):
            (productive, ground), (lost, _) = colours(theme, "productive"), colours(theme, cause)
            assert distance(productive, lost, eyes) >= 32, (cause, eyes)
            assert distance(productive, _hatched(lost, ground), eyes) >= 20, (cause, eyes)


@pytest.mark.parametrize("name", COLOURED)
def test_levels_are_told_apart_by_others(name: str) -> None:
    for one, other in combinations(("good", "warning", "critical", "stale", "text"), 2):
        assert distance(colours(THEMES[name], one)[0], colours(THEMES[name], other)[0]) >= 20, (one, other)


def test_the_simulation_sees_what_is_known_of_colour_blindness() -> None:
    red, green = "#d62728", "#7f8c1f"
    assert distance(red, green) > 60
    assert distance(red, green, "deuteranopia") < distance(red, green) / 2
    assert distance("#888888", "#888888", "protanopia") == 0.0


# --- those of users ---------------------------------------------------------------------------------------------------
def test_a_theme_may_change_single_styles(tmp_path: Path) -> None:
    theme = read(tmp_path, 'title = "Mine"\n[styles]\ncritical = "bold underline #F00 "')
    assert theme.styles["critical"] == StyleSpec("#ff0000", None, frozenset({"bold", "underline"}))
    assert theme.styles["good"] == THEMES["midnight"].styles["good"]
    assert (theme.title, theme.dark, theme.sixteen) == ("Mine", True, THEMES["ansi-16"].sixteen)


def test_a_light_theme_is_based_on_the_light_one(tmp_path: Path) -> None:
    assert read(tmp_path, "dark = false").styles == THEMES["daylight"].styles
    assert not read(tmp_path, 'base = "daylight"').dark


def test_a_colour_of_the_palette_changes_what_uses_it(tmp_path: Path) -> None:
    theme = read(tmp_path, 'base = "midnight"\n[palette]\nred = "#ff0000"')
    assert theme.styles["critical"].colour == theme.styles["badge-critical"].background == "#ff0000"


def test_a_theme_may_take_the_name_of_the_one_that_it_changes(tmp_path: Path) -> None:
    theme = read(tmp_path, 'base = "midnight"\n[palette]\nnight = "#000000"', "midnight")
    assert theme.styles["background"].background == "#000000"
    assert load_themes([tmp_path])["high-contrast"] == THEMES["high-contrast"]
    assert load_themes([tmp_path])["colour-blind"] == THEMES["colour-blind"], "built-in themes stay what they are"


def test_a_theme_of_a_user_may_be_a_base(tmp_path: Path) -> None:
    read(tmp_path, '[styles]\ntext = "#eeeeee"', "team")
    theme = read(tmp_path, 'base = "team"\n[sixteen]\ngood = "bright-green"', "mine")
    assert theme.styles["text"] == StyleSpec("#eeeeee")
    assert theme.sixteen["good"] == StyleSpec("bright-green")


def test_a_theme_of_the_terminals_colours_is_the_same_on_sixteen(tmp_path: Path) -> None:
    theme = read(tmp_path, 'base = "ansi-16"\n[styles]\ngood = "blue"')
    assert theme.inherits
    assert theme.sixteen == theme.styles


@pytest.mark.parametrize(
    ("text", "key", "expected"),
    [
        ("[styles]\ncriticle = 'red'", "styles.criticle", "unknown key, expected one of"),
        ("[styles]\ncritical = 'crimson'", "styles.critical", "expected a colour: #rrggbb, one of the palette (night"),
        ("[styles]\ncritical = '#ff00'", "styles.critical", "expected a colour"),
        ("[styles]\ncritical = 'red green'", "styles.critical", "expected a style: bold"),
        ("[styles]\ncritical = 'red on'", "styles.critical", "expected a style: bold"),
        ("[styles]\ncritical = 'red on blue'", "styles.critical", "expected no background"),
        ("[styles]\ncritical = 7", "styles.critical", "expected a string"),
        ("[sixteen]\ncritical = '#ff0000'", "sixteen.critical", "expected colours of the terminal"),
        ("[palette]\nbold = '#ff0000'", "palette.bold", "is no keyword"),
        ("[palette]\n'My Red' = '#ff0000'", "palette.My Red", "expected a name"),
        ("palette = 3", "palette", "expected a table"),
        ("base = 'twilight'", "base", "expected the name of another theme: ansi-16, colour-blind"),
        ("base = 'mine'", "base", "expected the name of another theme"),
        ("dark = 'yes'", "dark", "expected true or false"),
        ("colour = 'red'", "colour", "unknown key"),
        ("title = [", "file", "not valid TOML"),
    ],
)
def test_a_mistake_names_file_key_and_what_was_expected(tmp_path: Path, text: str, key: str, expected: str) -> None:
    with pytest.raises(DataFileError) as raised:
        read(tmp_path, text)
    assert (raised.value.file, raised.value.key) == (str(tmp_path / "mine.toml"), key)
    assert expected in raised.value.expected


def test_a_mistake_costs_that_theme_and_those_based_on_it_only(tmp_path: Path) -> None:
    for name, text in {"bad": "x = 1", "upon": 'base = "bad"', "good": "", "midnight": "x = 1", "No Name": ""}.items():
        (tmp_path / f"{name}.toml").write_text("schema = 1\n" + text)
    (tmp_path / "old.toml").write_text("schema = 2")
    problems: list[DataFileError] = []
    themes = load_themes([tmp_path, tmp_path / "gone"], problems)
    assert {name: themes[name] for name in THEMES} == THEMES
    assert themes.keys() - THEMES.keys() == {"good"}
    assert {Path(problem.file).stem for problem in problems} == {"bad", "upon", "midnight", "No Name", "old"}


def test_themes_based_on_each_other_are_refused(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text('schema = 1\nbase = "two"')
    (tmp_path / "two.toml").write_text('schema = 1\nbase = "one"')
    problems: list[DataFileError] = []
    assert load_themes([tmp_path], problems) == THEMES
    assert {problem.key for problem in problems} == {"base"}


# --- the choice -------------------------------------------------------------------------------------------------------
def test_what_is_asked_for_comes_before_what_was_picked_and_what_is_configured() -> None:
    assert choose_theme(THEMES, requested="mono", picked="daylight", configured="ansi-16") == "mono"
    assert choose_theme(THEMES, picked="daylight", configured="ansi-16") == "daylight"
    assert choose_theme(THEMES, configured="ansi-16") == "ansi-16"
    assert choose_theme(THEMES, picked="gone", configured="gone too") == "midnight"


@pytest.mark.parametrize(
    ("message", "name"),
    [("15;0", "midnight"), ("0;15", "daylight"), ("0;default;15", "daylight"), ("12;8", "midnight"), ("", "midnight")],
)
def test_else_the_terminal_says_whether_it_is_light(message: str, name: str) -> None:
    assert choose_theme(THEMES, environment={"COLORFGBG": message}) == name


def test_a_theme_that_is_asked_for_must_be_there() -> None:
    with pytest.raises(UsageError, match="no such theme: 'neon': expected one of ansi-16, colour-blind"):
        choose_theme(THEMES, requested="neon")
