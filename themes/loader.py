"""Themes: their schema, reading them from TOML, and which one is chosen."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from perfmon.core import DataFileError, Table, UsageError, read_toml

# --- Structure of a theme: a style for everything that is drawn, by name ---

ATTRIBUTES = ("bold", "dim", "italic", "underline", "reverse")
TERMINAL_COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
"""Colours that a terminal's own settings define; each also as `bright-…`."""
TERMINAL_NAMES = ("default", *TERMINAL_COLOURS, *(f"bright-{name}" for name in TERMINAL_COLOURS))

COLOURS_OF_CAUSES = 8
COLOURS_OF_SOURCES = 8

GROUNDS: Mapping[str, str] = {
    "background": "the screen",
    "panel": "the header, the footer and overlays",
    "cursor": "the row or column under the cursor",
}
"""Styles that are drawn below others: only their background counts, and attributes such as `reverse`."""

PAIRS: Mapping[str, str] = {
    "selection": "the selection in a list or an input",
    "match": "search matches",
    "badge-good": "a verdict on a filled background: healthy",
    "badge-warning": "a verdict on a filled background: warning",
    "badge-critical": "a verdict on a filled background: critical",
    "badge-stale": "a verdict on a filled background: unknown",
    "badge-info": "a filled background: paused, replay, recording",
}
"""Styles that bring their own background."""

TEXTS: Mapping[str, str] = {
    "text": "body text",
    "muted": "labels, units, secondary text",
    "faint": "separators, empty tracks, hints",
    "accent": "interactive elements",
    "title": "titles of panes",
    "frame": "frames of panes",
    "frame-focus": "the frame of the pane that has the focus",
    "good": "good values, ✓",
    "warning": "values between good and critical, !",
    "critical": "critical values, ✗",
    "stale": "stale or unknown values, ?",
    "info": "notes that are neither good nor bad",
    "productive": "time that did useful work",
    "unknown": "unattributed time, or an unknown phase",
    "send": "a weight update leaves the client",
    "queue": "a weight update waits in the server's queue",
    "rpc": "a weight update is loaded",
    "done": "a weight update has ended",
    "checkpoint-write": "a checkpoint is written",
    "checkpoint-wait": "waiting for a checkpoint",
    "generation": "a batch is generated",
    "staleness": "how old the weights of rollouts are",
    "metric": "a metric without thresholds",
    "footer-key": "keys in the footer",
    "footer-text": "key descriptions in the footer",
    **{f"cause{i}": "lost time by cause, beyond those that have a colour above" for i in range(COLOURS_OF_CAUSES)},
    **{f"source{i}": "names of logs, in turn" for i in range(COLOURS_OF_SOURCES)},
}
"""Styles that are drawn on a ground: they have no background of their own."""

STYLES: Mapping[str, str] = {**GROUNDS, **PAIRS, **TEXTS}
"""Every name with what it is for."""


@dataclass(frozen=True, slots=True)
class StyleSpec:
    """Style of an element. Colours are `#rrggbb`, a name of TERMINAL_NAMES, or None for the one below."""

    colour: str | None = None
    background: str | None = None
    attributes: frozenset[str] = frozenset()


StyleSpecs = Mapping[str, StyleSpec]
"""A StyleSpec for every name of STYLES."""


@dataclass(frozen=True, slots=True)
class ThemeData:
    """A theme with nothing left open."""

    name: str
    title: str
    dark: bool
    """It is light on dark."""
    inherits: bool
    """It uses the terminal's own colours and background."""
    styles: StyleSpecs
    """For terminals with 256 colours or more."""
    sixteen: StyleSpecs
    """For terminals with 16 colours: their own, on their own background."""
    plain: StyleSpecs
    """Without any colour: attributes alone."""


# --- Loading of themes from TOML; an error is reported with file, key and expected value, and affects no other theme
# ---

BUILTIN = Path(__file__).parent
DARK, LIGHT, SIXTEEN, PLAIN = "midnight", "daylight", "ansi-16", "mono"
"""Built-in themes that stand in for what others leave open."""
_Word = tuple[Table, str]
"""A style as it is written, and the table that it stands in."""
_KEYS = ("schema", "title", "base", "dark", "palette", "styles", "sixteen")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,40}", re.ASCII)
_HEX = re.compile(r"#(?:[0-9a-f]{3}|[0-9a-f]{6})", re.ASCII | re.IGNORECASE)
_WORD = re.compile(r"[a-z][a-z0-9-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A theme while it is put together: what is kept of it for those that are based on it."""

    title: str
    dark: bool
    palette: Mapping[str, str]
    words: Mapping[str, _Word]
    """Not read yet: what is based on this may still change the palette."""
    styles: StyleSpecs
    sixteen: StyleSpecs


def load_themes(folders: Iterable[Path] = (), problems: list[DataFileError] | None = None) -> dict[str, ThemeData]:
    """The built-in themes and those of the folders, by name; of one name the later file wins.

    What is wrong with a file is added to `problems`, which costs only that theme and those based on it; without
    such a list the first DataFileError is raised.
    """
    return _Shelf(_files(folders)).themes(problems)


def _files(folders: Iterable[Path]) -> Iterator[Path]:
    for folder in (BUILTIN, *folders):
        yield from sorted(folder.glob("*.toml"))


class _Shelf:
    """Theme files by name, oldest first: a theme may be based on the one whose name it takes."""

    def __init__(self, files: Iterable[Path]) -> None:
        self._files: dict[str, list[Path]] = {}
        for file in files:
            self._files.setdefault(file.stem, []).append(file)
        self._drawn: dict[Path, _Drawn | DataFileError] = {}

    def themes(self, problems: list[DataFileError] | None) -> dict[str, ThemeData]:
        """Of each name the last file that can be read."""
        found = {}
        for name, files in self._files.items():
            for file in files:
                try:
                    found[name] = self._theme(file)
                except DataFileError as error:
                    if problems is None:
                        raise
                    problems.append(error)
        return found

    def _theme(self, file: Path) -> ThemeData:
        drawn = self._draw(file, ())
        return ThemeData(
            name=file.stem,
            title=drawn.title,
            dark=drawn.dark,
            inherits=drawn.styles["background"].background is None,
            styles=drawn.styles,
            sixteen=drawn.sixteen,
            plain=self._draw(BUILTIN / f"{PLAIN}.toml", ()).styles,
        )

    def _draw(self, file: Path, above: tuple[Path, ...]) -> _Drawn:
        """`file` over what it is based on; `above` are those that are based on it."""
        if file not in self._drawn:
            try:
                self._drawn[file] = self._read(file, above)
            except DataFileError as error:
                self._drawn[file] = error
        drawn = self._drawn[file]
        if isinstance(drawn, DataFileError):
            raise drawn
        return drawn

    def _read(self, file: Path, above: tuple[Path, ...]) -> _Drawn:
        table = read_toml(file)
        _check(table, file)
        base = self._base(table, file, (*above, file))
        palette = {**(base.palette if base else {}), **_palette(table)}
        words = {**(base.words if base else {}), **_words(table, "styles")}
        for name in STYLES:
            if name not in words:
                raise table.wrong(f"styles.{name}", "missing, expected a style")
        dark = table.flag("dark", base.dark if base else True)
        look = {name: _spec(*words[name], name, palette) for name in STYLES}
        return _Drawn(
            table.text("title", file.stem), dark, palette, words, look, self._sixteen(file, table, base, look)
        )

    def _sixteen(self, file: Path, table: Table, base: _Drawn | None, look: StyleSpecs) -> StyleSpecs:
        """A look of the terminal's colours alone is fit for sixteen as it is; `[sixteen]` overrides in any case."""
        own = {name: _spec(*word, name, {}) for name, word in _words(table, "sixteen").items()}
        for name, spec in own.items():
            if not _of_terminal(spec):
                raise table.wrong(f"sixteen.{name}", f"expected colours of the terminal: {', '.join(TERMINAL_NAMES)}")
        if all(map(_of_terminal, look.values())):
            return {**look, **own}
        below = base.sixteen if base else self._draw(BUILTIN / f"{SIXTEEN}.toml", (file,)).sixteen
        return {**below, **own}

    def _base(self, table: Table, file: Path, above: tuple[Path, ...]) -> _Drawn | None:
        if file.parent == BUILTIN and "base" not in table.data:
            return None
        name = table.text("base", DARK if table.flag("dark", True) else LIGHT)
        files = self._files.get(name, [])
        older = files[: files.index(file)] if file in files else files
        if file.parent == BUILTIN or "base" not in table.data:
            older = older[:1]  # what a user calls midnight changes nothing that does not name it
        if not older:
            known = ", ".join(sorted(self._files.keys() - {file.stem}))
            raise table.wrong("base", f"expected the name of another theme: {known}")
        if older[-1] in above:
            raise table.wrong("base", f"expected a theme that is not based on this one, as {name} is")
        try:
            return self._draw(older[-1], above)
        except DataFileError:
            raise table.wrong("base", f"expected a theme that can be read, but {older[-1]} cannot") from None


def _check(table: Table, file: Path) -> None:
    if not _NAME.fullmatch(file.stem):
        raise DataFileError(str(file), "file", "expected a name of small letters, digits and -, as in my-theme.toml")
    table.only(_KEYS)
    if table.data.get("schema") != 1:
        raise table.wrong("schema", "expected 1")


def _of_terminal(spec: StyleSpec) -> bool:
    return not any(colour.startswith("#") for colour in (spec.colour, spec.background) if colour)


def _palette(table: Table) -> dict[str, str]:
    entry = table.table("palette", table.data.get("palette", {}))
    for name in entry.data:
        if not _WORD.fullmatch(name) or name in (*ATTRIBUTES, "on", "none"):
            raise entry.wrong(name, "expected a name of small letters, digits and - that is no keyword of a style")
    return {name: _colour(entry, name, entry.text(name), {}) for name in entry.data}


def _words(table: Table, key: str) -> dict[str, _Word]:
    entry = table.table(key, table.data.get(key, {}))
    entry.only(STYLES)
    return {name: (entry, entry.text(name)) for name in entry.data}


def _colour(table: Table, key: str, word: str, palette: Mapping[str, str]) -> str:
    if word in palette:
        return palette[word]
    if word in TERMINAL_NAMES:
        return word
    if not _HEX.fullmatch(word):
        named = f", one of the palette ({', '.join(palette)})" if palette else ""
        raise table.wrong(
            key, f"expected a colour: #rrggbb{named} or one of the terminal's (red, bright-blue, default)"
        )
    digits = word[1:].lower()
    return "#" + (digits if len(digits) == 6 else "".join(digit * 2 for digit in digits))


def _spec(table: Table, words: str, name: str, palette: Mapping[str, str]) -> StyleSpec:
    """`bold COLOUR on COLOUR`, each part optional; `none` for nothing at all."""
    before, on, after = words.partition("on ") if words.startswith("on ") else words.partition(" on ")
    parts = [part for part in before.split() if part != "none"]
    attributes = frozenset(part for part in parts if part in ATTRIBUTES)
    colours = [part for part in parts if part not in ATTRIBUTES]
    if len(colours) > 1 or (on and len(after.split()) != 1):
        raise table.wrong(name, "expected a style: bold, dim, italic, underline, reverse, then COLOUR, then on COLOUR")
    colour = _colour(table, name, colours[0], palette) if colours else None
    ground = _colour(table, name, after.strip(), palette) if on else None
    if ground and name not in GROUNDS and name not in PAIRS:
        raise table.wrong(name, "expected no background: it is drawn on the background of the screen")
    return StyleSpec(colour, None if ground == "default" else ground, attributes)


# --- Initial theme of the screen: requested, else last selected, else configured, else by the terminal ---

REMEMBERED = "theme"
"""The name under which `perfmon.core.user_state` keeps what was picked."""
_LIGHT_GROUNDS = {"7", *(str(number) for number in range(9, 16))}


def choose_theme(
    known: Collection[str],
    *,
    requested: str | None = None,
    picked: str | None = None,
    configured: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Name of the initial theme: the first of these that exists.

    A requested one (`--theme`) must exist: UsageError lists the known ones. A selected or configured one may have been
    deleted; then COLORFGBG of `environment` decides if the terminal is light.
    """
    if requested is not None and requested not in known:
        raise UsageError(f"no such theme: {requested!r}: expected one of {', '.join(sorted(known))}")
    fitting = LIGHT if _light(environment or {}) else DARK
    return next(
        name for name in (requested, picked, configured, fitting) if name is not None and name in (*known, fitting)
    )


def _light(environment: Mapping[str, str]) -> bool:
    """COLORFGBG is `foreground;background`, as numbers of the terminal's colours; some put a third in between."""
    return environment.get("COLORFGBG", "").rpartition(";")[2] in _LIGHT_GROUNDS
