"""Arguments that several commands share, and what shells complete them with."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from perfmon.core import InputError

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from perfmon.core import Config


_FILES = {
    "bash": "_shtab_compgen_files",
    "zsh": "_files",
    "fish": "(__fish_complete_path (commandline -ct))",
}
_FOLDERS = {
    "bash": "_shtab_compgen_dirs",
    "zsh": "_files -/",
    "fish": "(__fish_complete_directories)",
}


def completes_files(action: argparse.Action) -> None:
    """Shells complete this argument with files."""
    action.complete = _FILES  # type: ignore[attr-defined]  # read by shtab


def completes_folders(action: argparse.Action) -> None:
    """Shells complete this argument with folders."""
    action.complete = _FOLDERS  # type: ignore[attr-defined]  # read by shtab


def add_text_output_argument(parser: argparse.ArgumentParser, about: str) -> None:
    """`-o FILE` of a command that makes text."""
    told = f"{about} (-: standard output)"
    completes_files(parser.add_argument("-o", "--output", metavar="FILE", type=Path, help=told))


def is_printed(output: Path | None) -> bool:
    """Return true if the output goes to standard output."""
    return output is None or str(output) == "-"


def on_disk(text: str) -> Path:
    """The type of an argument that names what has to be a file or a folder."""
    if text == "-":
        raise argparse.ArgumentTypeError("cannot be written to standard output: give a file name")
    return Path(text)


def add_data_arguments(parser: argparse.ArgumentParser) -> None:
    """The files that add to, or replace, the built-in data: configuration, signatures and bands."""
    completes_files(parser.add_argument("--config", metavar="FILE", type=Path, help="additional configuration file"))
    completes_folders(
        parser.add_argument(
            "--signatures",
            metavar="DIR",
            type=Path,
            action="append",
            default=[],
            help="additional folder of signatures",
        )
    )
    completes_files(
        parser.add_argument(
            "--bands",
            metavar="FILE",
            type=Path,
            action="append",
            default=[],
            help="thresholds that replace the built-in ones",
        )
    )


def add_baseline_argument(parser: argparse.ArgumentParser) -> None:
    """Add the options for thresholds."""
    parser.add_argument(
        "--baseline",
        choices=["built-in", "auto"],
        help="auto: learn thresholds from the healthy start of the run (default: built-in and configured ones)",
    )


def add_formats_argument(parser: argparse.ArgumentParser) -> None:
    """Folders of format packs beside the built-in ones."""
    completes_folders(
        parser.add_argument(
            "--formats", metavar="DIR", type=Path, action="append", default=[], help="additional folder of formats"
        )
    )


def read_config(args: argparse.Namespace) -> Config:
    """The configuration, with what the arguments above add to it."""
    from perfmon.core import load_config

    config = load_config(args.config)
    if getattr(args, "baseline", None) is not None:
        config = replace(config, baseline=args.baseline)
    existing_folders((*args.formats, *args.signatures))
    config = replace(
        config,
        format_dirs=(*config.format_dirs, *args.formats),
        signature_dirs=(*config.signature_dirs, *args.signatures),
        band_files=(*config.band_files, *args.bands),
    )
    _warn_of_names(config)
    return config


def existing_folders(folders: Iterable[Path]) -> tuple[Path, ...]:
    """These folders of data files. Raises InputError for one that is none."""
    found = tuple(folders)
    for folder in found:
        if not folder.is_dir():
            raise InputError(f"{folder}: not a folder (expected a folder of *.toml files)")
    return found


def _warn_of_names(config: Config) -> None:
    """Says what in the user's limits and signatures would judge nothing; files that cannot be read are told later."""
    if not config.band_files and not config.signature_dirs:
        return
    from perfmon.core import PerfmonError
    from perfmon.pipeline import vocabulary
    from perfmon.rules import load_bands, load_signature, odd_limits, odd_names

    with suppress(PerfmonError):
        words, bands = vocabulary(config.format_dirs), load_bands(config.band_files)
        files = [file for folder in config.signature_dirs for file in sorted(folder.glob("*.toml"))]
        for line in (*odd_limits(bands, words), *odd_names([load_signature(file) for file in files], bands, words)):
            mend = "" if line.endswith("?") else " (use --formats for a folder of formats)"
            print(f"perfmon: {line}{mend}", file=sys.stderr)


def seconds(text: str) -> float:
    """A positive duration such as `30s`, `10m` or `1h 5m`, for argparse."""
    from perfmon.core import parse_duration

    try:
        value = parse_duration(text)
    except (ValueError, OverflowError):
        value = 0.0
    if not 0.0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"expected a duration such as 30s or 10m, not {text!r}")
    return value


def window(text: str) -> float | None:
    """A duration, or None for `all`, for argparse."""
    return None if text == "all" else seconds(text)


def speed(text: str) -> float:
    """Times real time, for argparse."""
    try:
        value = float(text.removesuffix("x"))
    except ValueError:
        value = 0.0
    if not 0.1 <= value <= 1000:
        raise argparse.ArgumentTypeError(f"expected a number from 0.1 to 1000, not {text!r}")
    return value


# --- Choices of arguments for shell completion: argparse accepts any value, the command validates it ---


class Offered:
    """The `choices` of an argument that shells complete; they are asked for only when a completion script is made."""

    def __init__(self, names: Callable[[], Iterable[str]]) -> None:
        self._names = names

    def __contains__(self, value: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._names()))


# --- A progress bar on stderr, for people who wait: only on a terminal, and only once the work takes long ---

_PATIENCE_S = 0.7


class ProgressBar:
    """Called with (done bytes, total bytes) while logs are read; use it as a context."""

    def __init__(self, label: str, terminal: bool | None = None) -> None:
        self._label = label
        self._terminal = sys.stderr.isatty() if terminal is None else terminal
        self._began = time.monotonic()
        self._bar: tuple[Progress, TaskID] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar[0].stop()

    def __call__(self, done: int, total: int) -> None:
        """Shows how far it is; done > total is a log that grew."""
        if self._bar is None and self._terminal and time.monotonic() - self._began > _PATIENCE_S:
            self._bar = self._start()
        if self._bar:
            progress, task = self._bar
            progress.update(task, completed=done, total=max(done, total))

    def _start(self) -> tuple[Progress, TaskID]:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        progress = Progress(*columns, console=Console(stderr=True), transient=True)
        task = progress.add_task(self._label, total=None)
        progress.start()
        return progress, task
