"""What a SPEC on the command line names."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from enum import StrEnum

from perfmon.errors import UsageError
from perfmon.text import plain

from .kinds import compression_of, is_bundle, is_recording

_LATER = re.compile(r"nccl=|https?://", re.IGNORECASE)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_MAGIC = re.compile(r"[*?[]")


class Kind(StrEnum):
    """What kind of thing a SPEC names."""

    FILE = "file"
    """A path that is no directory; it need not exist yet."""
    COMPRESSED = "compressed"
    BUNDLE = "bundle"
    RECORDING = "recording"
    DIRECTORY = "directory"
    GLOB = "glob"
    STDIN = "stdin"


@dataclass(frozen=True, slots=True)
class Spec:
    """One thing to observe."""

    text: str
    """As it was given."""
    kind: Kind
    path: str
    """Path or pattern, `~` expanded; "-" for stdin."""


def shown(text: str) -> str:
    """A SPEC or path in quotes, fit for one line of a message."""
    return f"'{plain(text, 200)}'"


def parse_spec(text: str) -> Spec:
    """Reads one SPEC. A file that exists under the very name wins over every other meaning.

    Raises UsageError when it is no SPEC, or of a kind that this version does not observe.
    """
    if text == "-":
        return Spec(text, Kind.STDIN, text)
    if not text.strip():
        raise UsageError("an empty SOURCE: name a log file, a directory, a 'glob' or - for stdin")
    if "\0" in text:
        raise UsageError(f"{shown(text)}: a path cannot hold a NUL byte")
    path = os.path.expanduser(text)
    if os.path.isdir(path):
        return Spec(text, Kind.DIRECTORY, path)
    if not os.path.lexists(path):
        _refuse_other_kinds(text)
        if _MAGIC.search(path):
            return Spec(text, Kind.GLOB, path)
    return Spec(text, _kind_by_name(path), path)


def _kind_by_name(path: str) -> Kind:
    name = os.path.basename(path)
    if is_bundle(name):
        return Kind.BUNDLE
    if is_recording(name):
        return Kind.RECORDING
    return Kind.COMPRESSED if compression_of(name) else Kind.FILE


def _refuse_other_kinds(text: str) -> None:
    if text.lower().startswith("ssh://"):
        raise UsageError(f"{shown(text)}: remote logs are supported by watch, snapshot, record, analyze and ssh")
    from .polls.asked import parse_asked

    if parse_asked(text) is not None:
        raise UsageError(f"{shown(text)}: pollers are supported by watch, snapshot --for and record")
    if _LATER.match(text):
        raise UsageError(f"{shown(text)}: this version reads files only: name a log file, directory, 'glob' or -")
    if _SCHEME.match(text):
        raise UsageError(f"{shown(text)}: no such kind of source: name a log file, directory, 'glob' or - for stdin")
