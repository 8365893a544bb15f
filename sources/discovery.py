"""Discovery of logs: the files that SOURCEs name, their copies, and those that cannot be opened."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from perfmon.core import InputError, counted, evidence_text, plain

from .file_tree import LogGroup, Tree, grouped, holds_logs, is_log, matches, walk_tree
from .spec import (
    ARCHIVES,
    HEAD,
    RECORDING,
    Kind,
    Spec,
    bundle_in,
    compression_in,
    compression_of,
    is_bundle,
    is_recording,
    parse_spec,
    recording_in,
    shown,
)

if TYPE_CHECKING:
    from .archives import Listing as BundleListing


# --- Archives that are met on the way and not opened: those in a folder may be of other runs, those in an archive cost
# time and memory that have no bound. They are named, and how they are read ---

_NAMED = 3


def in_folder(root: Path) -> str:
    """The message about the archives below a folder; "" if there are none."""
    try:
        archives = walk_tree(root).archives
    except OSError:
        return ""
    names = sorted(str(path.relative_to(root)) for path in archives)
    return f"{_named(names)} not read with the folder: name those that contain logs of this run" if names else ""


def in_bundle(found: BundleListing) -> str:
    """The message about the archives in an archive; "" if there are none."""
    return f"{_named(found.archives)} not read: unpack it and name the logs" if found.archives else ""


def _named(names: Sequence[str]) -> str:
    more = ", …" if len(names) > _NAMED else ""
    counted = "an archive" if len(names) == 1 else f"{len(names)} archives"
    return f"{counted} in it ({', '.join(map(plain, names[:_NAMED]))}{more}) {'is' if len(names) == 1 else 'are'}"


# --- The logs that SOURCEs name ---

STDIN = Path("-")
"""Path of the log that standard input is; those of files are absolute."""


class UnreadableError(InputError):
    """It exists, and cannot be read."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """One log."""

    name: str
    """For display: as the SOURCE gives it, so relative ones stay so."""
    path: Path
    """Absolute path of the file or archive; STDIN for standard input."""
    member: str | None = None
    """Name within the archive or recording; display text, never a path."""
    compression: str | None = None
    """gz, bz2, xz or zst, as name or first bytes promise; RECORDING within one."""


def discover(specs: Sequence[str]) -> list[LogFile]:
    """The logs that `specs` name, sorted by name; a file that is reached twice is listed once, under its own name.

    Raises UsageError or InputError, one line each, for the first SOURCE that is wrong, before anything is read. A file
    that exists and cannot be read is an error where nothing else is named; else reading it yields a notice.
    """
    logs: list[LogFile] = []
    closed: list[tuple[Spec, UnreadableError]] = []
    for spec in [parse_spec(text) for text in specs]:
        try:
            logs += logs_of(spec)
        except UnreadableError as error:
            closed.append((spec, error))
    if closed and not logs:
        raise closed[0][1]
    return distinct([*logs, *(log_file(Path(spec.path)) for spec, _ in closed)])


def runs_in(folder: str) -> list[LogGroup]:
    """The runs whose logs are below a folder, by name. Raises as `discover` does."""
    return grouped((str(log.path) for log in discover([folder])), os.path.abspath(os.path.expanduser(folder)))


def logs_of(spec: Spec) -> list[LogFile]:
    """The logs of one SOURCE. Raises InputError when there are none."""
    if spec.kind is Kind.STDIN:
        return [LogFile("stdin", STDIN)]
    if spec.kind is Kind.DIRECTORY:
        return _in_directory(spec)
    if spec.kind is Kind.GLOB:
        return _in_glob(spec)
    return _file(spec)


def log_file(path: Path) -> LogFile:
    """The log at a path, as its name promises."""
    return LogFile(display_name(path), Path(os.path.abspath(path)), None, compression_of(path.name))


def folder_of_archives(root: Path) -> LogFile:
    """The entry for the archives below a folder: reading it yields a notice with their names."""
    return LogFile(display_name(root), Path(os.path.abspath(root)), None, ARCHIVES)


def display_name(path: Path) -> str:
    """A path as it was given, relative or absolute, fit for display."""
    return evidence_text(str(path))


def distinct(logs: Sequence[LogFile]) -> list[LogFile]:
    """`logs` sorted by name, each file and member once: under the name without symlinks where it has several, else
    under a relative one."""
    kept: dict[tuple[object, ...], LogFile] = {}
    for log in sorted(logs, key=lambda log: (log.name.startswith("/"), log.name, log.member or "")):
        key = (*_identity(log.path), log.member)
        other = kept.get(key)
        if other is None or (_is_linked(other.path) and not _is_linked(log.path)):
            kept[key] = log
    return sorted(kept.values(), key=lambda log: (log.name, log.member or ""))


def globbed(pattern: str) -> tuple[list[Path], list[LogFile]]:
    """Return what a pattern matches now: the logs, those below directories included, and the folders of archives.

    Archives that the pattern does not name are not logs that it stands for.
    """
    logs: list[Path] = []
    folders: set[Path] = set()
    bare = not os.path.basename(pattern).strip("*")
    for path in matches(pattern):
        if os.path.isdir(path):
            with suppress(OSError):
                tree = walk_tree(path) if holds_logs(path.name) else Tree()
                logs += tree.logs
                folders.update([path] if tree.archives else ())
        elif os.path.isfile(path) and (not bare or is_log(str(path))):
            logs.append(path)
        elif bare and is_bundle(path.name):
            folders.add(path.parent)
    return logs, [folder_of_archives(folder) for folder in sorted(folders) if folders.isdisjoint(folder.parents)]


def _in_directory(spec: Spec) -> list[LogFile]:
    root = Path(spec.path)
    try:
        tree = walk_tree(root)
    except OSError as error:
        raise InputError(_unreadable(spec, error)) from None
    # A closed directory stands for the logs it may hold: reading it reports that they are lost.
    logs = [log_file(path) for path in tree.logs + tree.closed]
    if logs:
        return [*logs, folder_of_archives(root)] if tree.archives else logs
    if tree.archives:
        raise InputError(f"{shown(spec.text)}: no logs below this directory; {in_folder(root)}")
    kinds = "*.log, *.out, *.err, *.txt, *.jsonl …"
    if not tree.others:
        raise InputError(f"{shown(spec.text)}: no logs below this directory ({kinds})")
    more = f" and {counted(tree.others - 1, 'other file')}" if tree.others > 1 else ""
    named = f"no logs below this directory, but {shown(tree.other)}{more}: name one to read it (logs are {kinds})"
    raise InputError(f"{shown(spec.text)}: {named}")


def _in_glob(spec: Spec) -> list[LogFile]:
    paths, archives = globbed(spec.path)
    if not paths:
        raise InputError(f"{shown(spec.text)}: no match; {shown(str(_nearest(Path(spec.path))))} exists")
    logs, errors = [], []
    for path in paths:
        try:
            logs += _matched(path)
        except InputError as error:
            errors.append(error)
    if not logs:
        raise errors[0]
    return [*logs, *archives]


def _matched(path: Path) -> list[LogFile]:
    if is_bundle(path.name):
        return _in_bundle(Spec(str(path), Kind.BUNDLE, str(path)))
    if is_recording(path.name):
        return _in_recording(Spec(str(path), Kind.RECORDING, str(path)))
    return [log_file(path)]


def _file(spec: Spec) -> list[LogFile]:
    path = Path(spec.path)
    try:
        mode = path.stat().st_mode
        if stat.S_ISFIFO(mode):
            return [LogFile(display_name(path), Path(os.path.abspath(path)))]
        if not stat.S_ISREG(mode):
            raise InputError(f"{shown(spec.text)}: a device or socket, not a log: name a file, or - for stdin")
        with path.open("rb") as file:
            head = file.read(HEAD)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError(_unreadable(spec, error)) from None
    except OSError as error:
        raise UnreadableError(_unreadable(spec, error)) from None
    if is_recording(path.name) or recording_in(head):
        return _in_recording(spec)
    if head and (is_bundle(path.name) or bundle_in(head)):
        return _in_bundle(spec)
    return [LogFile(display_name(path), Path(os.path.abspath(path)), None, compression_in(head))]


def _in_bundle(spec: Spec) -> list[LogFile]:
    path = Path(os.path.abspath(spec.path))
    try:
        from .archives import listing

        found = listing(path)
    except OSError as error:
        raise InputError(_unreadable(spec, error)) from None
    if not found.logs and found.damage:
        raise InputError(f"{shown(spec.text)}: a damaged archive ({found.damage}): nothing can be read")
    if not found.logs and found.archives:
        raise InputError(f"{shown(spec.text)}: no logs in this archive; {in_bundle(found)}")
    if not found.logs:
        raise InputError(f"{shown(spec.text)}: no logs in this archive (*.log, *.out, *.err, *.txt, *.jsonl …)")
    name = display_name(Path(spec.path))
    names = [evidence_text(member) for member in found.logs]
    return [
        LogFile(f"{name}:{one}", path, member, compression_of(member))
        for one, member in zip(names, found.logs, strict=True)
    ]


def _in_recording(spec: Spec) -> list[LogFile]:
    """The logs in a recording have the names under which they were observed."""
    path = Path(os.path.abspath(spec.path))
    from perfmon.recording import open_recording

    recording = open_recording(path)
    if not recording.logs:
        raise InputError(f"{shown(spec.text)}: an empty recording ({recording.note or 'complete'})")
    return [LogFile(name, path, name, RECORDING) for name in recording.logs]


def _unreadable(spec: Spec, error: OSError) -> str:
    """One line with the reason why a path cannot be read, and the fix."""
    path = Path(spec.path)
    if isinstance(error, PermissionError):
        return f"{shown(spec.text)}: permission denied: make it readable, or run as its owner"
    if error.errno == errno.ENOENT and path.is_symlink():
        return f"{shown(spec.text)}: a link to {shown(os.readlink(path))}, which does not exist"
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return f"{shown(spec.text)}: no such file; {_nearby(path)}"
    return f"{shown(spec.text)}: cannot be read: {error.strerror}"


def _nearby(path: Path) -> str:
    """The nearest name that exists."""
    parent = _nearest(path)
    wanted = path.parts[len(parent.parts)] if len(path.parts) > len(parent.parts) else path.name
    try:
        import difflib

        close = difflib.get_close_matches(wanted, os.listdir(parent), 1, 0.6)
    except OSError:
        close = []
    return f"did you mean {shown(str(parent / close[0]))}?" if close else f"{shown(str(parent))} exists"


def _nearest(path: Path) -> Path:
    return next((parent for parent in path.parents if os.path.isdir(parent)), Path("/"))


def _identity(path: Path) -> tuple[object, ...]:
    try:
        state = path.stat()
    except OSError:
        return (str(path),)
    return state.st_dev, state.st_ino


def _is_linked(path: Path) -> bool:
    return os.path.realpath(path) != str(path)


# --- What SOURCEs name at this moment, and the folders in which more may appear ---


@dataclass(slots=True)
class Listing:
    """The logs that SOURCEs name now."""

    logs: list[LogFile] = field(default_factory=list)
    folders: set[str] = field(default_factory=set)
    """Folders in which something may appear or change."""


def listed(specs: Sequence[Spec]) -> Listing:
    """The logs that `specs` name now, and where more may appear (blocking)."""
    listing = Listing()
    for spec in specs:
        path = Path(spec.path)
        _watch_name(path, listing.folders)
        if spec.kind is Kind.GLOB:
            paths, folders = globbed(spec.path)
            listing.logs += folders
        elif os.path.isdir(path):  # unlike `Path.is_dir` it takes a failing file system for no folder
            paths, archives = _below(path, listing.folders)
            listing.logs += [folder_of_archives(path)] if archives else []
        else:
            paths = [path]
        for log in paths:
            _watch_name(log, listing.folders)
        listing.logs += [log_file(log) for log in paths]
    return Listing(distinct(listing.logs), listing.folders)


def _below(root: Path, folders: set[str]) -> tuple[list[Path], list[Path]]:
    try:
        tree = walk_tree(root)
    except OSError:
        return [], []
    folders.update(os.path.realpath(folder) for folder in tree.folders)
    return tree.logs, tree.archives


def _watch_name(path: Path, folders: set[str]) -> None:
    """Add the folders in which the file of this name, or the link that leads to it, can change."""
    whole = Path(os.path.abspath(path))
    folders.add(os.path.realpath(_nearest(whole)))
    if os.path.islink(whole):
        folders.add(os.path.dirname(os.path.realpath(whole)))


# --- Logs that are there twice: what copies a folder often follows its links, so that `latest/` holds all once more ---

_PIECE = 1 << 20
_ARCHIVE = "zip"


def without_copies(logs: Sequence[LogFile]) -> tuple[list[LogFile], dict[LogFile, list[LogFile]]]:
    """`logs` without those that have the name and all bytes of one before them; and the copies of those that have some.

    Files are compared by their bytes, members of a zip archive by its checksums; of a tar archive nothing is known
    before it is read.
    """
    alike: dict[Hashable, list[LogFile]] = {}
    archives: dict[Path, dict[str, Hashable]] = {}
    for log in logs:
        key = _key(log, archives)
        if key is not None:
            alike.setdefault((_base(log), key), []).append(log)
    copies: dict[LogFile, list[LogFile]] = {}
    for group in alike.values():
        kept: list[LogFile] = []
        for log in group:
            of = next((other for other in kept if _is_same(other, log)), None)
            if of is None:
                kept.append(log)
            else:
                copies.setdefault(of, []).append(log)
    dropped = {log for some in copies.values() for log in some}
    return [log for log in logs if log not in dropped], copies


def _base(log: LogFile) -> str:
    return log.path.name if log.member is None else PurePosixPath(log.member).name


def _key(log: LogFile, archives: dict[Path, dict[str, Hashable]]) -> Hashable | None:
    """A key that copies of a log share; None for an empty or unreadable one."""
    if log.member is not None:
        if log.path not in archives:
            archives[log.path] = _checksums(log.path)
        return archives[log.path].get(log.member)
    if log.path == STDIN:
        return None
    with suppress(OSError):
        return log.path.stat().st_size or None
    return None


def _checksums(path: Path) -> dict[str, Hashable]:
    """Of each member of a zip archive that holds something; of others, and of damaged ones, nothing."""
    import zipfile

    with suppress(OSError, zipfile.BadZipFile, ValueError), zipfile.ZipFile(path) as archive:
        return {info.filename: (_ARCHIVE, info.CRC, info.file_size) for info in archive.infolist() if info.file_size}
    return {}


def _is_same(one: LogFile, other: LogFile) -> bool:
    """Compare the bytes of two logs of one key; an unreadable one equals nothing."""
    if one.member is not None:
        return True
    with suppress(OSError), one.path.open("rb") as ours, other.path.open("rb") as theirs:
        while (piece := ours.read(_PIECE)) == theirs.read(_PIECE):
            if not piece:
                return True
    return False
