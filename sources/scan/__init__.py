"""The scanner of blocks, and its search for literals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from .json_envelope import read_line
    from .scanner import ReadingScanner, Scanner, ScanResult
    from .tables import Heading
    from .update_templates import KEEP_ALL, EvidenceLimits

__getattr__ = lazy_face(__name__)
