"""Arguments that several commands share, and what shells complete them with."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from perfmon.core import InputError, PerfmonError, plain

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from perfmon.core import Config, Detail
    from perfmon.diagnosis import Diagnosis, RuleSet
    from perfmon.monitor import Monitor
    from perfmon.rules import View
    from perfmon.sources import LogFile


def warn(text: str) -> None:
    """Print a message for people, which is no data."""
    print(f"perfmon: {text}", file=sys.stderr, flush=True)


def several_runs(specs: Iterable[str], logs: Iterable[LogFile] | None = None) -> str:
    """A note, if a source is a folder of several runs: what is found there is of all of them together."""
    from perfmon.core import counted
    from perfmon.sources import discover, grouped

    folders = [spec for spec in specs if os.path.isdir(os.path.expanduser(spec))]
    for folder in folders:
        root = os.path.abspath(os.path.expanduser(folder))
        try:
            paths = [log.path for log in (discover([folder]) if logs is None else logs)]
        except PerfmonError:  # reported where it is read
            continue
        runs = len(grouped([str(path) for path in paths if path.is_relative_to(root)], root))
        if runs > 1:
            listed = f"perfmon runs {plain(shlex.quote(folder), 300)}"
            return f"{plain(folder, 200)}: {counted(runs, 'run')} taken together as one ({listed} lists them)"
    return ""


# --- Arguments and their types ---

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
WINDOW_S = 600.0
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)


def completes_files(action: argparse.Action) -> None:
    """Shells complete this argument with files."""
    action.complete = _FILES  # type: ignore[attr-defined]  # read by shtab


def completes_folders(action: argparse.Action) -> None:
    """Shells complete this argument with folders."""
    action.complete = _FOLDERS  # type: ignore[attr-defined]  # read by shtab


def add_sources_argument(parser: argparse.ArgumentParser, about: str = "sources, as for watch") -> None:
    """Add `SOURCE...`."""
    completes_files(parser.add_argument("spec", metavar="SOURCE", nargs="+", help=about))


def add_text_output_argument(parser: argparse.ArgumentParser, about: str) -> None:
    """Add `-o FILE` of a command that makes text."""
    about = f"{about} (-: standard output)"
    completes_files(parser.add_argument("-o", "--output", metavar="FILE", type=Path, help=about))


def add_window_argument(parser: argparse.ArgumentParser) -> None:
    """Add `--window TIME`."""
    about = "analysis window (default: 10m)"
    parser.add_argument("--window", metavar="TIME", type=seconds, default=WINDOW_S, help=about)


def add_speed_argument(parser: argparse.ArgumentParser, default: float) -> None:
    """Add `--speed X`."""
    about = f"speed as a factor of real time (default: {default:g})"
    parser.add_argument("--speed", metavar="X", type=speed, default=default, help=about)


def add_baseline_argument(parser: argparse.ArgumentParser) -> None:
    """Add the option for learned thresholds."""
    parser.add_argument(
        "--baseline",
        choices=["built-in", "auto"],
        help="auto: learn thresholds from the healthy start of the run (default: built-in and configured ones)",
    )


def add_time_range_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `--since TIME` and `--until TIME`."""
    when = "10m before the end, 2026-08-21T14:00, 14:00:30, or seconds from the start"
    parser.add_argument("--since", metavar="TIME", help=f"ignore earlier lines: {when}")
    parser.add_argument("--until", metavar="TIME", help="ignore later lines (TIME as for --since)")


def add_data_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the files that add to, or replace, the built-in data: formats, configuration, signatures and thresholds."""
    add_formats_argument(parser)
    completes_files(parser.add_argument("--config", metavar="FILE", type=Path, help="additional configuration file"))
    more: dict[str, Any] = {"type": Path, "action": "append", "default": []}
    about = "additional folder of signatures"
    completes_folders(parser.add_argument("--signatures", metavar="DIR", help=about, **more))
    about = "thresholds that replace the built-in ones"
    completes_files(parser.add_argument("--bands", metavar="FILE", help=about, **more))


def add_formats_argument(parser: argparse.ArgumentParser) -> None:
    """Add folders of format packs."""
    more: dict[str, Any] = {"type": Path, "action": "append", "default": []}
    completes_folders(parser.add_argument("--formats", metavar="DIR", help="additional folder of formats", **more))


def add_config_argument(parser: argparse.ArgumentParser) -> None:
    """Add the configuration file of a command that works on data files."""
    completes_files(parser.add_argument("--config", metavar="FILE", type=Path, help="one more configuration file"))


def on_disk(text: str) -> Path:
    """The type of an argument that names what has to be a file or a folder."""
    if text == "-":
        raise argparse.ArgumentTypeError("cannot be written to standard output: give a file name")
    return Path(text)


def byte_count(text: str) -> float | None:
    """Bytes of a size such as `64M`; None for anything else."""
    match = _SIZE.fullmatch(text.strip())
    return float(match[1]) * 1024.0 ** " KMGT".index(match[2].upper() or " ") if match else None


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


def speed(text: str) -> float:
    """Times real time, for argparse."""
    try:
        value = float(text.removesuffix("x"))
    except ValueError:
        value = 0.0
    if not 0.1 <= value <= 1000:
        raise argparse.ArgumentTypeError(f"expected a number from 0.1 to 1000, not {text!r}")
    return value


# --- Reading and writing ---


def read_config(args: argparse.Namespace) -> Config:
    """The configuration, with what the arguments above add to it."""
    from perfmon.core import load_config

    config = load_config(args.config)
    existing_folders((*args.formats, *args.signatures))
    config = replace(
        config,
        baseline=getattr(args, "baseline", None) or config.baseline,
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
    """Warn of the user's thresholds and signatures that will never be evaluated; broken files are reported later."""
    if not config.band_files and not config.signature_dirs:
        return
    from perfmon.pipeline import vocabulary
    from perfmon.rules import load_bands, load_signature, unread_metrics, unread_names

    with suppress(PerfmonError):
        words, bands = vocabulary(config.format_dirs), load_bands(config.band_files)
        files = [file for folder in config.signature_dirs for file in sorted(folder.glob("*.toml"))]
        for line in (
            *unread_metrics(bands, words),
            *unread_names([load_signature(file) for file in files], bands, words),
        ):
            warn(line if line.endswith("?") else f"{line} (use --formats for a folder of formats)")


def check_files_exist(files: Iterable[Path]) -> None:
    """Raise InputError for a data file that is missing."""
    for file in files:
        if not file.is_file():
            raise InputError(f"{file}: {'not a file' if file.exists() else 'no such file'} (name a *.toml file)")


def is_printed(output: Path | None) -> bool:
    """Return true if the output goes to standard output."""
    return output is None or str(output) == "-"


def write_output(text: str, output: Path | None, suffix: str, what: str = "") -> None:
    """Print `text`, or save it to `output` and name the file on stderr after the words `what`."""
    if output is None or is_printed(output):
        sys.stdout.write(text)
        return
    from datetime import datetime

    from perfmon.reports import save

    warn(f"{what} {save(text, output, datetime.now().astimezone(), suffix)}")


def raise_failure(monitor: Monitor) -> None:
    """Raise what a monitor failed by, if it did."""
    error = monitor.failed
    if isinstance(error, PerfmonError):
        raise error
    if error is not None:
        raise RuntimeError(f"the monitor stopped: {type(error).__name__}: {error}") from error


# --- Choices of arguments for shell completion: argparse accepts any value, the command validates it ---


class Offered:
    """The `choices` of an argument that shells complete; they are read only when a completion script is made."""

    def __init__(self, names: Callable[[], Iterable[str]]) -> None:
        self._names = names

    def __contains__(self, value: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._names()))


# --- A progress bar on stderr, for people who wait: only on a terminal, and only once the work takes long ---

_PATIENCE_S = 0.7


class ProgressBar:
    """Called with (done, total) bytes, or with `counts` things, while the work lasts; use it as a context."""

    def __init__(self, label: str, terminal: bool | None = None, *, counts: bool = False) -> None:
        self._label = label
        self._counts = counts
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
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        amount = MofNCompleteColumn() if self._counts else DownloadColumn()
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), amount, TimeRemainingColumn())
        progress = Progress(*columns, console=Console(stderr=True), transient=True)
        task = progress.add_task(self._label, total=None)
        progress.start()
        return progress, task


def examine_logs(
    config: Config, specs: Iterable[str], logs: Iterable[LogFile] = (), *, since: str | None = None,
    until: str | None = None, jobs: int | None = None, detail: Detail,
) -> tuple[Diagnosis, View, RuleSet]:  # fmt: skip
    """Read complete logs behind a progress bar; as `perfmon.pipeline.examine`."""
    from perfmon.pipeline import Options, examine

    specs = tuple(specs)
    if note := several_runs(specs):
        warn(note)
    options = Options(
        specs, logs=tuple(logs), since=since, until=until, jobs=jobs or config.jobs, config=config, detail=detail
    )
    with ProgressBar("reading logs") as bar:
        return examine(options, bar)
