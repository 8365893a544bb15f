"""Everything that touches the terminal below Textual."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from .splash import curtain

__getattr__ = lazy_face(__name__)
