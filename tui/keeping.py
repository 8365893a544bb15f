"""Keeps what is on the screen, or was learned from a log, as a file."""

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
        raise InputError("nothing has been read yet")
    made, target = datetime.now().astimezone(), Path(path or ".").expanduser()
    if target.is_file():
        raise InputError(f"{path}: already exists (choose another name)")
    return save(render(picture.snapshot, picture, made), target, made)


def keep_format(log: str) -> str:
    """Learns a format from a log and puts it among those of the user; says which file and what it reads.

    Raises PerfmonError, in one line, where nothing is learned or it cannot be written.
    """
    from perfmon.config import load_config
    from perfmon.learned import format_name, installed, keep, learn
    from perfmon.sources.formats.loader import load_packs

    packs, name = load_packs(load_config().format_dirs), format_name(log)
    target = installed(name, packs)
    proposal = learn(log, name, packs)
    return f"written: {keep(proposal, target)} ({', '.join(proposal.found)})"
