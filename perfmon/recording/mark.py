"""What a recording is recognised by."""

from __future__ import annotations

MAGIC = b"\x89PMREC\r\n\x1a\n"
SUFFIX = ".pmrec"
