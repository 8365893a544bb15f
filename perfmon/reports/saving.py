"""Writes a report where it was asked for: whole or not at all, so that nobody reads half of one."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from perfmon.errors import InputError, UsageError


def keep_what_was_read(target: Path | None, read: Iterable[str]) -> None:
    """Raises UsageError where `target` is one of the files that were read: a log is written once, and not by us."""
    if target is None or not target.is_file():
        return
    for name in read:
        with suppress(OSError):  # stdin, a log in an archive
            if target.samefile(name):
                raise UsageError(f"{target}: this would overwrite a log that was read (choose another place)")


def save(text: str, target: Path, made: datetime, suffix: str = ".md") -> Path:
    """Writes `text` to `target`, which it replaces; in a folder, to a file named after the moment.

    Returns the file. Raises InputError when it cannot be written; what was there before is then still there.
    """
    file = _named(target, made, suffix) if target.is_dir() else target
    try:
        if file.exists() and not file.is_file():  # a pipe, a device
            file.write_text(text, encoding="utf-8")
        else:
            _replace(Path(os.path.realpath(file)), text)
    except OSError as error:
        raise InputError(f"{file}: cannot be written: {error.strerror or error} (choose another place)") from None
    return file


def _named(folder: Path, made: datetime, suffix: str) -> Path:
    stem = f"perfmon_{made:%Y%m%d_%H%M%S}"
    names = (folder / f"{stem}{f'_{number}' if number > 1 else ''}{suffix}" for number in range(1, 1000))
    return next((name for name in names if not name.exists()), folder / f"{stem}{suffix}")


def _replace(file: Path, text: str) -> None:
    fresh = file.with_name(f".{file.name}.{os.getpid()}.new")
    try:
        with fresh.open("x", encoding="utf-8", newline="\n") as out:
            out.write(text)
        if file.exists():
            fresh.chmod(file.stat().st_mode & 0o777)
        fresh.replace(file)
    except OSError:
        with suppress(OSError):
            fresh.unlink()
        raise
