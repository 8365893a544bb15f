"""Arguments that several commands share, and what shells complete them with."""

from __future__ import annotations

import argparse
from pathlib import Path

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


def add_data_arguments(parser: argparse.ArgumentParser) -> None:
    """The files that add to, or replace, the built-in data: configuration, signatures and bands."""
    completes_files(parser.add_argument("--config", metavar="FILE", type=Path, help="one more configuration file"))
    completes_folders(
        parser.add_argument(
            "--signatures", metavar="DIR", type=Path, action="append", default=[], help="one more folder of signatures"
        )
    )
    completes_files(
        parser.add_argument(
            "--bands",
            metavar="FILE",
            type=Path,
            action="append",
            default=[],
            help="limits instead of the built-in ones",
        )
    )
