"""The state file, by which a monitor reports how its run is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from .run_rows import RunRow, look, ordered, rows_of
    from .state_file import ENDS, State, StateFile, absolute, read_state, read_states, state_of_picture

__getattr__ = lazy_face(__name__)
