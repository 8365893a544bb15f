"""The live monitor: Textual panes over the same diagnosis as every report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from .actions import ACTIONS, HINTS
    from .app import PerfmonApp, board_columns, shoot
    from .plain_app import AGAIN, BACK, AppOptions
    from .profile_app import ProfileApp
    from .runs_app import RunsApp

__getattr__ = lazy_face(__name__)
