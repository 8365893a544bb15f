"""A check of the environment: its outcome, and programs that are run with a deadline."""

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
    impact: str = ""
    """Impact on the user; "" if there is none."""
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """A finding with what was looked at."""

    id: str
    group: str
    title: str
    finding: Finding


def found(detail: str) -> Finding:
    """Return the result of a check without problems."""
    return Finding(State.FOUND, detail)


def missing(detail: str, impact: str, fix: str = "") -> Finding:
    """Return the result of a check for what is not there."""
    return Finding(State.MISSING, detail, impact, fix)


def limited(detail: str, impact: str, fix: str = "") -> Finding:
    """Return the result of a check for what works in part."""
    return Finding(State.LIMITED, detail, impact, fix)


# --- Running other programs ---


class CommandError(Exception):
    """A program failed; its text is the reason, in one line."""


def program(*names: str) -> str | None:
    """The path of the first of these programs that there is."""
    return next((path for name in names if (path := shutil.which(name))), None)


def output_of(patience_s: float, *words: str) -> str:
    """Output of a program. Raises CommandError if it fails, TimeoutError if it takes longer: then it is killed."""
    try:
        child = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            errors="replace", start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise CommandError((error.strerror or "cannot start").lower()) from None
    with child:
        try:
            out, err = child.communicate(timeout=patience_s)
        except subprocess.TimeoutExpired:
            with suppress(OSError):
                os.killpg(child.pid, signal.SIGKILL)  # with all that it started
            raise TimeoutError from None
    if child.returncode:
        raise CommandError(first_line(err) or first_line(out) or f"exit code {child.returncode}")
    return out


def first_line(text: str) -> str:
    """The first line that is not blank, safe to show."""
    return evidence_text(next((line.strip() for line in text.splitlines() if line.strip()), ""))
