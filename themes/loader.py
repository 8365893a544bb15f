"""Loading of themes from TOML; an error is reported with file, key and expected value, and affects no other theme."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from perfmon.datafile import Table, read_toml
from perfmon.errors import DataFileError

from .schema import ATTRIBUTES, GROUNDS, PAIRS, STYLES, TERMINAL_NAMES, Look, Spec, ThemeData

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
    styles: Look
    sixteen: Look


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

    def _sixteen(self, file: Path, table: Table, base: _Drawn | None, look: Look) -> Look:
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
            older = older[:1]  # what a user calls midnight changes nothing that does not ask for it
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


def _of_terminal(spec: Spec) -> bool:
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


def _spec(table: Table, words: str, name: str, palette: Mapping[str, str]) -> Spec:
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
    return Spec(colour, None if ground == "default" else ground, attributes)
