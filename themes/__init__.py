"""Colour themes as data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from .loader import (
        COLOURS_OF_CAUSES,
        COLOURS_OF_SOURCES,
        GROUNDS,
        PAIRS,
        REMEMBERED,
        STYLES,
        TEXTS,
        StyleSpec,
        StyleSpecs,
        ThemeData,
        choose_theme,
        load_themes,
    )

__getattr__ = lazy_face(__name__)
