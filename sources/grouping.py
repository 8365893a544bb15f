"""Which logs belong to which run, where a folder has the logs of several.

What is known of a log before it is read is its path. Launchers give every run a folder, and within it folders to its
parts, which are named by what they are (`trainer`, `rank_3`, `node-0`, `logs`); batch schedulers put the logs of all
jobs into one folder, with the number of the job in their names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

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
_NUMBERED = re.compile(r"(?:attempt|torchelastic|(?:local_?|global_?)?rank|node|host)s?[-_]?\d*", re.IGNORECASE)
_NUMBER = re.compile(r"\d{1,4}")
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

    If `root` itself has logs that are not of batch jobs, all is one run: then it is the folder of a run.
    """
    folders: dict[str, list[str]] = {}
    for path in sorted(paths):
        folders.setdefault(_own_folder(os.path.relpath(os.path.dirname(path), root)), []).append(path)
    if "." in folders and not _jobs(folders["."]):
        return [LogGroup(".", (root,), tuple(path for held in folders.values() for path in held))]
    inner = _without_subfolders(folders)
    groups = [group for folder, held in inner.items() for group in _of_folder(folder, held, root)]
    return sorted(groups, key=lambda group: group.name)


def _own_folder(folder: str) -> str:
    """The folder of the run that a folder of logs belongs to."""
    parts = list(PurePosixPath(folder).parts)
    while parts:
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
