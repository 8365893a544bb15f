"""The ranks that are behind, in detail: the last lines of their logs and, if the user agrees, their stacks.

A stack comes from py-spy, which reads the memory of the process through ptrace: the only source here that touches the
run, so only `--dossier` uses it. Processes are those of this machine and user whose environment has the rank.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from perfmon.core import InputError, evidence_text, plain

_TAIL = 1 << 18
_LINES = 5
_MOST_RANKS = 8
_MOST_LOGS = 4096
_STACK_S = 20.0
_MOST_STACK = 400
"""Lines of one stack."""
_FOLDERS = re.compile(r"\([^()]*/")
_OWN_FILE = re.compile(r"(?:^|[^a-z])rank[_.-]?(\d{1,7})(?!\d)", re.IGNORECASE)
_PREFIX = re.compile(r"^(?:\[?\w{0,40}[:|]\s*)?\[rank:? ?(\d{1,7})\]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Dossier:
    """One rank: its last log lines, and its stack."""

    rank: int
    lines: tuple[str, ...] = ()
    log: str = ""
    pid: int = 0
    stack: tuple[str, ...] = ()
    note: str = ""
    """The reason why there is no stack."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line near the end of a log."""

    log: str
    text: str
    offset: int
    after: int
    """Lines of the log that follow it."""


def last_lines(folder: Path, ranks: Iterable[int]) -> dict[int, tuple[LogLine, ...]]:
    """By rank its last lines: of logs that belong to one rank by name, or whose lines begin with it."""
    from perfmon.sources import discover

    wanted = set(ranks)
    try:
        logs = discover([str(folder)])[:_MOST_LOGS]
    except InputError:
        return {}
    found: dict[int, tuple[LogLine, ...]] = {}
    for log in logs:
        if log.member is not None or log.compression is not None:
            continue
        tail = _tail(log.path, log.name)
        own = _rank_of(log.path)
        if own in wanted and own is not None and tail:
            found[own] = tuple(tail[-_LINES:])
            continue
        mine: dict[int, deque[LogLine]] = {}
        for line in tail:
            match = _PREFIX.match(line.text)
            if match is not None and int(match[1]) in wanted:
                mine.setdefault(int(match[1]), deque(maxlen=_LINES)).append(line)
        for rank, lines in mine.items():
            found.setdefault(rank, tuple(lines))
    return found


def _rank_of(path: Path) -> int | None:
    """The rank in a name: `rank_5.log`, or `5/stderr.log` as torchrun names them."""
    match = _OWN_FILE.search(path.stem)
    if match is not None:
        return int(match[1])
    if path.name in ("stdout.log", "stderr.log") and path.parent.name.isdecimal():
        return int(path.parent.name)
    return None


def _tail(path: Path, log: str) -> list[LogLine]:
    """The lines at the end of a file that are not empty."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            at = file.seek(max(0, size - _TAIL))
            pieces = file.read(_TAIL).splitlines(keepends=True)
    except OSError:
        return []
    lines = []
    for number, piece in enumerate(pieces):
        text = piece.decode("utf-8", "replace").rstrip("\r\n")
        if text.strip() and (number or not at):  # the first one may be cut
            lines.append(LogLine(log, evidence_text(text), at, len(pieces) - 1 - number))
        at += len(piece)
    return lines


def processes(ranks: Iterable[int], root: Path = Path("/proc")) -> dict[int, tuple[int, ...]]:
    """Process ids of this machine and user by rank: the environment of a trainer has RANK and WORLD_SIZE.

    Children inherit the environment and are left out. Several processes of a rank are of several jobs.
    """
    wanted = set(ranks)
    found: dict[int, dict[int, int]] = {}
    with suppress(OSError):
        for name in (name for name in os.listdir(root) if name.isdecimal()):
            with suppress(OSError, ValueError, IndexError):
                environment = (root / name / "environ").read_bytes().split(b"\0")
                values = dict(part.split(b"=", 1) for part in environment if b"=" in part)
                rank = values.get(b"RANK", b"")
                if b"WORLD_SIZE" in values and rank.isdigit() and int(rank) in wanted:
                    # The name of the program, in parentheses, may hold anything.
                    parent = int((root / name / "stat").read_bytes().rpartition(b")")[2].split()[1])
                    found.setdefault(int(rank), {})[int(name)] = parent
    return {
        rank: tuple(sorted(pid for pid, parent in some.items() if parent not in some)) for rank, some in found.items()
    }


def stack_of(pid: int) -> tuple[tuple[str, ...], str]:
    """The stack of a process and "", or nothing and the reason."""
    program = shutil.which("py-spy")
    if program is None:
        return (), "py-spy is not installed (pip install py-spy)"
    try:
        done = subprocess.run(
            [program, "dump", "--pid", str(pid), "--nonblocking"], capture_output=True, timeout=_STACK_S, check=False
        )
    except subprocess.TimeoutExpired:
        return (), f"py-spy did not answer within {_STACK_S:g} s"
    except OSError as error:
        return (), f"py-spy cannot be started: {error.strerror}"
    if done.returncode:
        reason = plain(" ".join(done.stderr.decode("utf-8", "replace").split()), 160)
        return (), f"py-spy: {reason or done.returncode} (it needs ptrace: the same user, or CAP_SYS_PTRACE)"
    lines = done.stdout.decode("utf-8", "replace").splitlines()[:_MOST_STACK]
    return tuple(evidence_text(line) for line in lines if line.strip()), ""


def process_stacks(ranks: Sequence[int]) -> dict[int, tuple[int, tuple[str, ...], str]]:
    """By rank its process, its stack and ""; or 0, nothing and the reason. Of this host, through py-spy."""
    pids = processes(ranks)
    found: dict[int, tuple[int, tuple[str, ...], str]] = {}
    for rank in ranks:
        match pids.get(rank, ()):
            case ():
                found[rank] = 0, (), "no process of this rank on this host"
            case (pid,):
                found[rank] = pid, *stack_of(pid)
            case several:
                found[rank] = 0, (), f"several processes of this rank on this host: {', '.join(map(str, several))}"
    return found


def main_frames(stack: Sequence[str], most: int = 3) -> str:
    """The innermost frames of the main thread in the text of py-spy, as `wait (queue.py:171) < next (loader.py:40)`."""
    threads: list[list[str]] = []
    main: list[str] = []
    process = ""
    for line in stack:
        if line.startswith("Process "):
            process = line.split()[1].rstrip(":")
        elif line.startswith("Thread "):
            threads.append([])
            if '"MainThread"' in line or line.split()[1] == process:
                main = threads[-1]
        elif line.startswith(" ") and threads:
            threads[-1].append(_FOLDERS.sub("(", line.strip()))
    frames = main or next((some for some in threads if some and some[-1].startswith("<module>")), [])
    return " < ".join(frames[:most])


def dossiers(folder: Path | None, ranks: Sequence[int], with_stacks: bool) -> list[Dossier]:
    """Return the dossiers of some ranks; of those without lines and stack none."""
    ranks = sorted(ranks)[:_MOST_RANKS]
    lines = last_lines(folder, ranks) if folder is not None else {}
    stacks = process_stacks(ranks) if with_stacks else {}
    found = []
    for rank in ranks:
        mine = lines.get(rank, ())
        pid, stack, note = stacks.get(rank, (0, (), ""))
        log = mine[0].log if mine else ""
        found.append(Dossier(rank, tuple(one.text for one in mine), log, pid, stack, note))
    return [one for one in found if one.lines or one.stack or one.note]
