"""What the user settled once: configuration files, and the folders of formats, signatures and bands beside them.

Read in this order, later ones override single values and add to lists of files: `~/.config/perfmon` (or
`$XDG_CONFIG_HOME/perfmon`), `./perfmon.toml`, `$PERFMON_CONFIG`, `--config`. The last two name a file, or a folder laid
out like `~/.config/perfmon`: `config.toml`, `formats/`, `signatures/`, `bands/`, `themes/`. What starts programs or
sends data is not taken from `./perfmon.toml`, into which others may have written.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .datafile import Table, read_toml
from .errors import DataFileError
from .outward import Outward, read_outward

BUILTIN, AUTO = "built-in", "auto"
"""Where the limits of metrics come from."""


@dataclass(frozen=True, slots=True)
class Detail:
    """How much a snapshot holds beside what it says: some of that only files show, and it takes a while."""

    rows: int = 5000
    """The most that its timeline holds."""
    points: int = 2000
    """The most of which each metric's course is drawn."""


WHOLE, WATCHED, FIGURES = Detail(), Detail(0), Detail(0, 0)
"""All of it; what screens and pages show; what answers and figures need."""


@dataclass(frozen=True, slots=True)
class Config:
    """Settings that hold for every command."""

    format_dirs: tuple[Path, ...] = ()
    """Folders of format packs that join the built-in ones; a later id replaces an earlier one."""
    signature_dirs: tuple[Path, ...] = ()
    """Folders of signatures, likewise."""
    band_files: tuple[Path, ...] = ()
    """Band tables, likewise."""
    theme_dirs: tuple[Path, ...] = ()
    """Folders of themes, likewise."""
    theme: str | None = None
    """Name of the theme of the screen; None: by what the terminal says of its background."""
    criteria: Path | None = None
    """What `perfmon compare` asks of a mended run; None: the built-in criteria."""
    baseline: str = BUILTIN
    """AUTO: limits are learned from the healthy start of a run."""
    async_level: int | None = None
    """Steps by which rollouts may be behind on purpose; None: learned from the run."""
    memory_mb: int | None = None
    """What the store of a run may keep, in MB; older samples are thinned beyond it. None: 256 for complete logs, and as
    little for a run that is watched as a monitor may take that stays open for days."""
    gpu_price: float | None = None
    """What one GPU costs for an hour, in a currency of the user's: lost time is told in money, too."""
    jobs: int | None = None
    """Processes that read logs; None: one a core."""
    notify: Outward = field(default_factory=Outward)
    """How alerts leave the monitor."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Keys of the screen that the user chose: names of keys, with commas between them, by action."""


_WHOLE = {"async_level": 0, "memory_mb": 16, "jobs": 1}
"""Whole numbers, with the least that makes sense."""
_FOLDERS = ("format_dirs", "signature_dirs", "theme_dirs")
_FILES = ("band_files",)
_NOTIFY = "notify"
_THEME = "theme"
_KEYS = "keys"
_CRITERIA = "criteria"
_GPU_PRICE = "gpu_price"
_BASELINE = "baseline"
_HERE = Path("perfmon.toml")


def _whole(table: Table, name: str) -> int:
    value, least = table.data[name], _WHOLE[name]
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise table.wrong(name, f"expected an integer of at least {least}")
    return value


def _name(table: Table, name: str) -> str:
    text = table.text(name)
    if not text.strip():
        raise table.wrong(name, "expected a name")
    return text


def _paths(table: Table, name: str) -> tuple[Path, ...]:
    """Paths as given, relative ones from the folder of the file that names them."""
    paths = tuple(Path(table.file).parent / Path(text).expanduser() for text in table.texts(name))
    for path in paths:
        if name in _FOLDERS and not path.is_dir():
            raise table.wrong(name, f"expected folders, but {path} is not one")
        if name in _FILES and not path.is_file():
            raise table.wrong(name, f"expected files, but {path} is not one")
    return paths


def _with_file(config: Config, path: Path) -> Config:
    table = read_toml(path)
    table.only((*_WHOLE, _GPU_PRICE, *_FOLDERS, *_FILES, _CRITERIA, _BASELINE, _THEME, _NOTIFY, _KEYS))
    if _NOTIFY in table.data:
        told = read_outward(config.notify, table.table(_NOTIFY, table.data[_NOTIFY]), own=path != _HERE)
        config = replace(config, notify=told)
    if _GPU_PRICE in table.data:
        config = replace(config, gpu_price=table.amount(_GPU_PRICE, 0.0))
    if _CRITERIA in table.data:
        config = replace(config, criteria=Path(path).parent / Path(table.text(_CRITERIA)).expanduser())
    if _BASELINE in table.data:
        if table.data[_BASELINE] not in (BUILTIN, AUTO):
            raise table.wrong(_BASELINE, f'expected "{AUTO}" or "{BUILTIN}"')
        config = replace(config, baseline=table.text(_BASELINE))
    if _THEME in table.data:
        config = replace(config, theme=_name(table, _THEME))
    if _KEYS in table.data:
        chosen = table.table(_KEYS, table.data[_KEYS])
        config = replace(config, keys={**config.keys, **{action: _name(chosen, action) for action in chosen.data}})
    numbers: dict[str, Any] = {name: _whole(table, name) for name in _WHOLE if name in table.data}
    lists: dict[str, Any] = {name: getattr(config, name) + _paths(table, name) for name in (*_FOLDERS, *_FILES)}
    return replace(config, **numbers, **lists)


def _with_folder(config: Config, folder: Path) -> Config:
    """The folder's own formats, signatures, bands and themes, then its `config.toml`: a file that is named wins."""
    if not os.access(folder, os.R_OK | os.X_OK):
        raise DataFileError(str(folder), "folder", "cannot be read: make it readable, or change XDG_CONFIG_HOME")
    formats, signatures, themes = folder / "formats", folder / "signatures", folder / "themes"
    config = replace(
        config,
        format_dirs=config.format_dirs + ((formats,) if formats.is_dir() else ()),
        signature_dirs=config.signature_dirs + ((signatures,) if signatures.is_dir() else ()),
        theme_dirs=config.theme_dirs + ((themes,) if themes.is_dir() else ()),
        band_files=config.band_files + tuple(sorted((folder / "bands").glob("*.toml"))),
    )
    file = folder / "config.toml"
    return _with_file(config, file) if file.exists() else config


def user_folder() -> Path:
    """Where the user's own configuration, formats, signatures and bands are, whether or not it exists."""
    home = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(home) if os.path.isabs(home) else Path("~/.config").expanduser()) / "perfmon"


def _places(explicit: Path | None) -> list[Path]:
    optional = [path for path in (user_folder(), _HERE) if os.path.exists(path)]  # False where none may look
    named = [Path(value).expanduser() for value in (os.environ.get("PERFMON_CONFIG"),) if value]
    return optional + named + ([explicit] if explicit else [])


def load_config(explicit: Path | None = None) -> Config:
    """The settings of all places; a wrong one raises DataFileError naming file, key and what was expected."""
    config = Config()
    for place in _places(explicit):
        config = _with_folder(config, place) if place.is_dir() else _with_file(config, place)
    return config
