"""A check of the environment: its outcome, and how questions are asked with a deadline."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

from perfmon.core import evidence_text

# --- The outcome of one look ---


class State(StrEnum):
    """State of a check; only BROKEN keeps perfmon from working."""

    FOUND = "found"
    LIMITED = "limited"
    """There, but something of it is missing."""
    MISSING = "missing"
    UNKNOWN = "unknown"
    """It did not answer in time."""
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of a check."""

    state: State
    detail: str
    """Details, or the reason of a problem."""
    costs: str = ""
    """Impact on the user; "" if there is none."""
    mend: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """A finding with what was looked at."""

    id: str
    group: str
    title: str
    finding: Finding


def found(detail: str) -> Finding:
    """All is well."""
    return Finding(State.FOUND, detail)


def missing(detail: str, costs: str, mend: str = "") -> Finding:
    """It is not there."""
    return Finding(State.MISSING, detail, costs, mend)


def limited(detail: str, costs: str, mend: str = "") -> Finding:
    """Not all of it is there."""
    return Finding(State.LIMITED, detail, costs, mend)


# --- Short questions to other programs ---

_running: set[subprocess.Popen[str]] = set()
"""Running child processes."""


class Silent(Exception):
    """A program failed; its text says how, in one line."""


def program(*names: str) -> str | None:
    """The path of the first of these programs that there is."""
    return next((path for name in names if (path := shutil.which(name))), None)


def asked(patience_s: float, *words: str) -> str:
    """Output of a program. Raises Silent if it fails, TimeoutError if it takes longer: then it is killed."""
    try:
        child = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise Silent((error.strerror or "cannot start").lower()) from None
    _running.add(child)
    try:
        out, err = child.communicate(timeout=patience_s)
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
    finally:
        _end(child)
    if child.returncode:
        told = (err.strip() or out.strip()).splitlines()
        raise Silent(evidence_text(told[0]) if told else f"exit code {child.returncode}")
    return out


def end_all() -> None:
    """Ends what still runs: nobody waits for it any more."""
    for child in tuple(_running):
        _end(child)


def _end(child: subprocess.Popen[str]) -> None:
    """With all that it started, unless it was over."""
    _running.discard(child)
    if child.returncode is None:
        with suppress(OSError):
            os.killpg(child.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            child.wait(1.0)
    for stream in (child.stdout, child.stderr):
        if stream is not None:
            with suppress(OSError, ValueError):
                stream.close()


def first_line(text: str) -> str:
    """The first line that says something, safe to show."""
    return evidence_text(next((line.strip() for line in text.splitlines() if line.strip()), ""))
