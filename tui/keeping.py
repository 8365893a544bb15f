"""Keeps what is on the screen as a file."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from perfmon.errors import InputError
from perfmon.picture import Picture


def keep_page(picture: Picture, path: str = "") -> Path:
    """Writes the page of a picture to `path`: a new file, or a folder (this one) where it is named after the moment.

    Returns the file. Raises InputError when nothing was read yet, for a file that exists, and for one that cannot be
    written.
    """
    from perfmon.reports.page import render
    from perfmon.reports.saving import save

    if picture.snapshot is None:
        raise InputError("nothing was read yet: nothing to write down")
    made, target = datetime.now().astimezone(), Path(path or ".").expanduser()
    if target.is_file():
        raise InputError(f"{path}: exists already (choose another name)")
    return save(render(picture.snapshot, picture, made), target, made)
