"""SOURCEs on the command line, and kinds of files."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from enum import StrEnum

from perfmon.core import UsageError, evidence_text
from perfmon.recording import MAGIC, SUFFIX

# --- What a file is, by its name and by its first bytes: text, compressed, an archive, or no log at all ---

HEAD = 1 << 14
"""Bytes of a file that are enough to judge it."""

SUFFIXES = {".gz": "gz", ".bz2": "bz2", ".xz": "xz", ".zst": "zst"}
"""Suffix of a compressed file → compression."""

RECORDING = "pmrec"
"""Value in place of the compression of a log in a recording."""

INSPECTOR = "inspector"
"""Value in place of the compression of a log of NCCL Inspector on another host."""

ARCHIVES = "archives"
"""Value in place of the compression of a folder whose archives are only named."""

_FILE_MAGIC = {b"\x1f\x8b\x08": "gz", b"BZh": "bz2", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zst"}
_BZIP2 = (b"1AY&SY", b"\x17\x72\x45\x38\x50\x90")
"""Bytes after "BZh9" when that is no text: a block, or the end of an empty stream."""
_BUNDLES = re.compile(r"\.(zip|tar|tgz|tbz2?|txz|tzst|tar\.(gz|bz2|xz|zst))$", re.IGNORECASE)
_LOGS = re.compile(r"\.(log|out|err|txt|jsonl|ndjson|stdout|stderr)([.-]\d[\d._T:-]*)?$|\.[oe]\d{3,12}$", re.IGNORECASE)
_FOREIGN = (
    MAGIC,
    b"\x7fELF", b"\x89PNG", b"\x89HDF", b"\x93NUMPY", b"PAR1", b"SQLite format 3\0", b"GGUF", b"%PDF", b"PK\x03\x04",
    b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05", b"\xff\xd8\xff", b"GIF8",
)  # fmt: skip
_NULS = re.compile(rb"\0+")
_CONTROLS = bytes({*range(32), 127} - set(b"\a\b\t\n\v\f\r\x1b"))


def compression_of(name: str) -> str | None:
    """Compression by the suffix of a name; None for plain files and for bundles."""
    if is_bundle(name):
        return None
    return next((kind for suffix, kind in SUFFIXES.items() if name.lower().endswith(suffix)), None)


def compression_in(head: bytes) -> str | None:
    """Compression by the first bytes of a file; None when it is not compressed."""
    kind = next((kind for magic, kind in _FILE_MAGIC.items() if head.startswith(magic)), None)
    return None if kind == "bz2" and head[4:10] not in _BZIP2 else kind


def is_bundle(name: str) -> bool:
    """True for the name of a tar or zip archive."""
    return _BUNDLES.search(name) is not None


def bundle_in(head: bytes) -> bool:
    """True for the first bytes of an uncompressed tar or a zip archive."""
    return head.startswith((b"PK\x03\x04", b"PK\x05\x06")) or head[257:262] == b"ustar"


def is_recording(name: str) -> bool:
    """True for the name of a recording."""
    return name.lower().endswith(SUFFIX)


def recording_in(head: bytes) -> bool:
    """True for the first bytes of a recording."""
    return head.startswith(MAGIC)


def is_log_name(name: str) -> bool:
    """True if a file of a directory or bundle is a log by its name, compressed or not, rotated or not."""
    compression = compression_of(name)
    bare = name.rpartition(".")[0] if compression else name
    return not name.startswith(".") and _LOGS.search(bare) is not None


def is_json_lines(head: bytes) -> bool:
    """True if each line is a JSON object: a `.json` file that is a log rather than a document."""
    lines = head.split(b"\n", 2)
    first, second = lines[0].rstrip(), lines[1] if len(lines) > 1 else b""
    return first.startswith(b"{") and first.endswith(b"}") and second.startswith(b"{")


def utf16_in(head: bytes) -> str | None:
    """Codec of a file that begins with the byte order mark of UTF-16; None for all others."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) and len(head) > 2 and b"\0" in head[2:4]:
        return "utf-16"
    return None


def is_binary(head: bytes) -> bool:
    """True if these first bytes are not text.

    Runs of NUL count once: a truncated or crashed log has holes of them. Other encodings than UTF-8 are text.
    """
    sample = _NULS.sub(b"\0", head.lstrip(b"\0"))
    if not sample:
        return False
    if sample.startswith(_FOREIGN):
        return True
    controls = len(sample) - len(sample.translate(None, _CONTROLS))
    if controls * 3 > len(sample):
        return True
    return controls * 20 > len(sample) and sample.decode("utf-8", "replace").count("\ufffd") * 10 > len(sample)


# --- What a SOURCE on the command line names ---

_LATER = re.compile(r"https?://", re.IGNORECASE)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_MAGIC = re.compile(r"[*?[]")


class Kind(StrEnum):
    """The kind of thing that a SOURCE names."""

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
    """A SOURCE or path in quotes, fit for one line of a message."""
    return f"'{evidence_text(text, 200)}'"


def parse_spec(text: str) -> Spec:
    """Read one SOURCE. A file that exists under the very name wins over every other meaning.

    Raises UsageError when it is no SOURCE, or of a kind that this version does not observe.
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
    from .pollers.request import parse_request

    if parse_request(text) is not None:
        raise UsageError(f"{shown(text)}: pollers are supported by watch, snapshot --for and record")
    if text.startswith("nccl="):
        raise UsageError(f"{shown(text)}: supported by watch, snapshot --for and record (else: perfmon nccl DIR)")
    if _LATER.match(text):
        raise UsageError(f"{shown(text)}: this version reads files only: name a log file, directory, 'glob' or -")
    if _SCHEME.match(text):
        raise UsageError(f"{shown(text)}: no such kind of source: name a log file, directory, 'glob' or - for stdin")
