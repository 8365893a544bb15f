"""Trees of files: which files below a directory are logs, which match a pattern, and which belong to which run."""

from __future__ import annotations

import glob
import os
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path, PurePosixPath

from .spec import HEAD, is_bundle, is_json_lines, is_log_name

# --- Which files below a directory are logs ---

_DEPTH = 24
_SKIPPED = re.compile(
    r"\.|__pycache__$|node_modules$|(checkpoint|ckpt)s?([._-]|\d|$)|global_step|weights?$|site-packages$", re.IGNORECASE
)
"""Directories without logs of their own: hidden ones, checkpoints, installed code."""


@dataclass(slots=True)
class Tree:
    """The result of walking a directory."""

    logs: list[Path] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)
    """Every directory that was read, the root first."""
    archives: list[Path] = field(default_factory=list)
    """Of other runs, perhaps: they are not looked into."""
    closed: list[Path] = field(default_factory=list)
    """Directories that may not be read."""
    others: int = 0
    """Files that are no logs."""
    other: str = ""
    """Name of the first of them."""


def walk_tree(root: Path) -> Tree:
    """The logs below a directory, through symlinks too; each directory once, under its own name where it has one.

    Raises OSError when `root` itself cannot be read. What vanishes while it is read is left out.
    """
    tree = Tree()

    def failed(folder: str, error: OSError) -> None:
        if not tree.folders:
            raise error
        if isinstance(error, PermissionError):
            tree.closed.append(Path(folder))

    # A link to a directory above the root would read half the machine, and the root again within it.
    above = {_identity(str(parent)) for parent in Path(os.path.realpath(root)).parents if os.path.exists(parent)}
    for folder, entries in _walk(str(root), holds_logs, above, failed, _DEPTH):
        tree.folders.append(Path(folder))
        for entry in entries:
            if _kind(entry) == "file":
                _sort_in(entry, tree)
    return tree


def is_log(path: str) -> bool:
    """True if the name is that of a log; for a `.json` file, if each of its lines is an object."""
    return is_log_name(os.path.basename(path)) or (path.lower().endswith(".json") and _has_json_lines(path))


def holds_logs(name: str) -> bool:
    """True if directories of this name are searched."""
    return not _SKIPPED.match(name)


def _walk(
    root: str,
    enters: Callable[[str], bool],
    visited: set[tuple[int, int]],
    failed: Callable[[str, OSError], None],
    depth: float = inf,
) -> Iterator[tuple[str, list[os.DirEntry[str]]]]:
    """Yield `root` and the directories below it with their entries: each once, own ones before those behind symlinks.

    `enters` chooses directories by name; those that cannot be read go to `failed`.
    """
    own: list[tuple[str, int]] = [(root, 0)]
    linked: list[tuple[str, int]] = []
    while own or linked:
        folder, level = own.pop() if own else linked.pop()
        try:
            if (identity := _identity(folder or ".")) in visited:
                continue
            visited.add(identity)
            with os.scandir(folder or ".") as scanned:
                entries = list(scanned)
        except OSError as error:
            failed(folder, error)
            continue
        yield folder, entries
        for entry in entries if level < depth else ():
            if enters(entry.name) and _kind(entry) == "folder":
                (linked if entry.is_symlink() else own).append((os.path.join(folder, entry.name), level + 1))


def _sort_in(entry: os.DirEntry[str], tree: Tree) -> None:
    if is_log(entry.path):
        tree.logs.append(Path(entry.path))
    elif is_bundle(entry.name) and not entry.name.startswith("."):
        tree.archives.append(Path(entry.path))
    else:
        tree.others, tree.other = tree.others + 1, tree.other or entry.name


def _kind(entry: os.DirEntry[str]) -> str:
    try:
        return "folder" if entry.is_dir() else "file" if entry.is_file() else ""
    except OSError:
        return ""


def _has_json_lines(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return is_json_lines(file.read(HEAD))
    except OSError:
        return False


def _identity(path: str) -> tuple[int, int]:
    state = os.stat(path)
    return state.st_dev, state.st_ino


# --- Patterns of paths, `**` included, in trees whose symlinks may run in circles ---


def matches(pattern: str) -> list[Path]:
    """Return the matches of `pattern`, sorted; hidden names only if it names them. Each directory is entered once."""
    before, stars, after = _split(pattern)
    if not stars:
        return sorted(Path(match) for match in glob.iglob(pattern))
    found: set[Path] = set()
    for base in glob.glob(before) if before else [""]:
        for folder, _ in _walk(base, lambda name: not name.startswith("."), set(), lambda _folder, _error: None):
            found.update(matches(os.path.join(glob.escape(folder), after)) if after else _files(folder))
    return sorted(found)


def _split(pattern: str) -> tuple[str, str, str]:
    """(before, "**", after) of the first component that is `**`; (pattern, "", "") without one."""
    parts = pattern.split("/")
    if "**" not in parts:
        return pattern, "", ""
    at = parts.index("**")
    return "/".join(parts[:at]) or ("/" if at else ""), "**", "/".join(parts[at + 1 :])


def _files(folder: str) -> list[Path]:
    return [path for path in Path(folder or ".").iterdir() if os.path.isfile(path)]


# --- Which logs belong to which run, where a folder has the logs of several ---
#
# What is known of a log before it is read is its path. Launchers give every run a folder, and within it folders to its
# parts, which are named by what they are (`trainer`, `rank_3`, `node-0`, `logs`); batch schedulers put the logs of all
# jobs into one folder, with the number of the job in their names.

_PARTS = (
    "logs?|latest|current|files|outputs?|stdout|stderr|std|console|wandb|debug|"
    "trainer|train(?:ing)?|finetune|inference|infer|orchestrator|orch|rollouts?|generators?|generation|policy|actors?|critic|"
    "reward|reference|ref|eval(?:uation)?|valid(?:ation)?|val|test|controller|scheduler|launcher|env(?:ironment)?s?|data|loaders?|"
    "vllm|sglang|engines?|servers?|clients?|replicas?|ray|session|nccl|monitor|metrics|"
    "attempts?|torchelastic|(?:local_?|global_?)?ranks?|nodes?|hosts?|workers?|proc(?:ess)?(?:es)?|gpus?|cuda|devices?|"
    "shards?|stages?|groups?|roles?|learners?|agents?"
)
_PART = re.compile(rf"(?:{_PARTS})(?:[-_.]?(?:{_PARTS}))?(?:[-_.]?\d{{1,5}}){{0,2}}(?:[-_.]of[-_.]\d+)?", re.IGNORECASE)
"""Names of folders that hold a part of a run."""
_OF_PART = re.compile(rf"(?:{_PARTS})(?![a-z])", re.IGNORECASE)
"""Names that begin like those: `env_maze`."""
_NUMBERED = re.compile(r"(?:attempt|torchelastic|(?:local_?|global_?)?rank|node|host)s?[-_]?\d*", re.IGNORECASE)
_TRACKED = re.compile(r"(?:wandb|lightning_logs|mlruns|tb_logs|tensorboard)(?:/|$)", re.IGNORECASE)
"""Folders of experiment trackers, within the folder of a run."""
_SEVERAL = 3
_STRAY, _STRAY_SHARE = 1024, 16
"""Bytes of logs that are no run's, and so many times more has to be below them."""
_NUMBER = re.compile(r"\d{1,4}")
_DIGITS = re.compile(r"\d+")
_JOB = re.compile(r"(?P<job>(?:.*[-_.])?\d{4,}(?:[-_]\d+)?)\.(?:out|err|log|txt)")
"""Name of the log of a batch job: `slurm-12345.out`, `train-12345_7.err`."""


@dataclass(frozen=True, slots=True)
class LogGroup:
    """The logs of one run."""

    name: str
    """Its folder relative to where it was looked for, or that and the name of its job; `.` is the place itself."""
    specs: tuple[str, ...]
    """Sources that name these logs, and those that the run begins later where it has a folder of its own."""
    paths: tuple[str, ...]


def grouped(paths: Iterable[str], root: str) -> list[LogGroup]:
    """Logs below the folder `root`, an absolute path as theirs, by run; sorted by name.

    If `root` itself has logs that are not of batch jobs, all is one run: then it is the folder of a run. If folders of
    runs are below it, only those logs are one: a stray one hides no run.
    """
    paths, folders = sorted(paths), dict[str, list[str]]()
    several = _folders_of_runs([os.path.relpath(path, root) for path in paths])
    for path in paths:
        folders.setdefault(_own_folder(os.path.relpath(os.path.dirname(path), root), several), []).append(path)
    groups: list[LogGroup] = []
    if "." in folders and not _jobs(folders["."]):
        below = {folder: held for folder, held in folders.items() if folder != "."}
        if not _hold_runs(below) and not _is_stray(folders["."], below):
            return [LogGroup(".", (root,), tuple(path for held in folders.values() for path in held))]
        own = folders.pop(".")
        groups = [LogGroup(os.path.basename(own[0]) if len(own) == 1 else ".", tuple(own), tuple(own))]
    inner = _without_subfolders(folders)
    groups += [group for folder, held in inner.items() for group in _of_folder(folder, held, root)]
    return sorted(groups, key=lambda group: group.name)


def _hold_runs(folders: Mapping[str, Sequence[str]]) -> bool:
    """Folders below one that has logs of its own are runs, not its parts: two have logs of the same names, or there are
    three. Those of a tracker are copies of what the logs above contain.
    """
    own = {folder: held for folder, held in folders.items() if not _TRACKED.match(folder)}
    own = {folder: held for folder, held in own.items() if not _OF_PART.match(folder) or "/" in folder}
    alike = Counter(name for held in own.values() for name in {_DIGITS.sub("0", os.path.basename(log)) for log in held})
    return len(own) >= _SEVERAL or max(alike.values(), default=0) > 1


def _is_stray(own: Sequence[str], below: Mapping[str, Sequence[str]]) -> bool:
    """Logs next to several folders that are not named like parts contain next to nothing, as a `nohup.out` does."""
    named = sum(not _OF_PART.match(folder) and not _TRACKED.match(folder) for folder in below)
    size = sum(map(_size, own))
    return (
        named > 1
        and size <= _STRAY
        and size * _STRAY_SHARE <= sum(_size(log) for held in below.values() for log in held)
    )


def _size(path: str) -> float:
    try:
        return os.path.getsize(path)
    except OSError:
        return inf


def _folders_of_runs(logs: Iterable[str]) -> set[str]:
    """The folders without logs of their own that hold several runs, whatever one of these is named."""
    held, below = set[str](), dict[str, dict[str, set[str]]]()
    for log in logs:
        parts = PurePosixPath(log).parts
        held.add("/".join(parts[:-1]) or ".")
        for at in range(len(parts) - 1):
            inner = below.setdefault("/".join(parts[:at]) or ".", {}).setdefault(parts[at], set())
            inner.add(_DIGITS.sub("0", "/".join(parts[at + 1 :])))
    return {folder for folder, inner in below.items() if folder not in held and _are_runs(inner)}


def _are_runs(inner: Mapping[str, Iterable[str]]) -> bool:
    """Folders next to those named like parts have logs of the same names, and are more: each is a run.

    Parts differ in their logs, and most have the name of one.
    """
    parts = sum(_PART.fullmatch(name) is not None for name in inner)
    alike = Counter(log for name, logs in inner.items() if not _OF_PART.match(name) for log in logs)
    return parts > 0 and max(alike.values(), default=0) > max(1, parts)


def _own_folder(folder: str, several: Container[str]) -> str:
    """The folder of the run that a folder of logs belongs to; those of `several` runs are that of none."""
    parts = list(PurePosixPath(folder).parts)
    while parts:
        if ("/".join(parts[:-1]) or ".") in several:
            break
        if _PART.fullmatch(parts[-1]):
            parts.pop()
        elif len(parts) > 1 and _NUMBER.fullmatch(parts[-1]) and _NUMBERED.fullmatch(parts[-2]):
            parts.pop()  # torchrun: attempt_0/3/stderr.log
        else:
            break
    return "/".join(parts) or "."


def _without_subfolders(folders: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Logs of folders within the folder of a run are its own; those of the root's subfolders are not the root's."""
    merged: dict[str, list[str]] = {}
    for folder in sorted(folders, key=lambda name: name.count("/")):
        above = (str(parent) for parent in PurePosixPath(folder).parents)
        home = next((parent for parent in above if parent != "." and parent in merged), folder)
        merged.setdefault(home, []).extend(folders[folder])
    return merged


def _of_folder(folder: str, paths: Sequence[str], root: str) -> list[LogGroup]:
    jobs = _jobs(paths)
    if not jobs:
        return [LogGroup(folder, (os.path.join(root, folder),), tuple(paths))]
    return [
        LogGroup(os.path.normpath(os.path.join(folder, job)), tuple(held), tuple(held)) for job, held in jobs.items()
    ]


def _jobs(paths: Sequence[str]) -> dict[str, list[str]]:
    """Logs by batch job; none where some log is of no job, or all are of one, or they are in several folders."""
    jobs: dict[str, list[str]] = {}
    for path in paths:
        match = _JOB.fullmatch(os.path.basename(path))
        if match is None or os.path.dirname(path) != os.path.dirname(paths[0]):
            return {}
        jobs.setdefault(match["job"], []).append(path)
    return jobs if len(jobs) > 1 else {}
