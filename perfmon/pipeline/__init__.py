"""Scanner, store, clocks and rules put together: a session, the offline runner, examples of signatures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from .offline import (
        TIMEOUT,
        Options,
        Progress,
        examine,
        hang_begin,
        note_of,
        read,
        run_examples,
        timeouts_of,
        vocabulary,
        written_since,
    )
    from .session import MEMORY_MB, Session

__getattr__ = lazy_face(__name__)
