"""What a file is, by its name and by its first bytes: text, compressed, an archive, or no log at all."""

from __future__ import annotations

import re

from perfmon.recording.mark import MAGIC, SUFFIX

HEAD = 1 << 14
"""Bytes of a file that are enough to judge it."""

SUFFIXES = {".gz": "gz", ".bz2": "bz2", ".xz": "xz", ".zst": "zst"}
"""Suffix of a compressed file → compression."""

RECORDING = "pmrec"
"""What stands for the compression of a log in a recording."""

ARCHIVES = "archives"
"""What stands for the compression of a folder whose archives are only named."""

_MAGIC = {b"\x1f\x8b\x08": "gz", b"BZh": "bz2", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zst"}
_BZIP2 = (b"1AY&SY", b"\x17\x72\x45\x38\x50\x90")
"""What follows "BZh9" when that is no text: a block, or the end of an empty stream."""
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
    kind = next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), None)
    return None if kind == "bz2" and head[4:10] not in _BZIP2 else kind


def is_bundle(name: str) -> bool:
    """Whether the name is that of a tar or zip archive."""
    return _BUNDLES.search(name) is not None


def bundle_in(head: bytes) -> bool:
    """Whether the first bytes are those of an uncompressed tar or a zip archive."""
    return head.startswith((b"PK\x03\x04", b"PK\x05\x06")) or head[257:262] == b"ustar"


def is_recording(name: str) -> bool:
    """Whether the name is that of a recording."""
    return name.lower().endswith(SUFFIX)


def recording_in(head: bytes) -> bool:
    """Whether the first bytes are those of a recording."""
    return head.startswith(MAGIC)


def is_log_name(name: str) -> bool:
    """Whether a file of a directory or bundle is a log by its name, compressed or not, rotated or not."""
    compression = compression_of(name)
    bare = name.rpartition(".")[0] if compression else name
    return not name.startswith(".") and _LOGS.search(bare) is not None


def is_json_lines(head: bytes) -> bool:
    """Whether the file has a JSON object in each line: a `.json` file that is a log rather than a document."""
    lines = head.split(b"\n", 2)
    first, second = lines[0].rstrip(), lines[1] if len(lines) > 1 else b""
    return first.startswith(b"{") and first.endswith(b"}") and second.startswith(b"{")


def utf16_in(head: bytes) -> str | None:
    """Codec of a file that begins with the byte order mark of UTF-16; None for all others."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) and len(head) > 2 and b"\0" in head[2:4]:
        return "utf-16"
    return None


def is_binary(head: bytes) -> bool:
    """Whether these first bytes are no text.

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
