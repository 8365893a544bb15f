"""Scanner, store, clocks and rules put together: a session, the offline runner, examples of signatures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from .hang_notes import TIMEOUT, hang_begin, note_of, timeouts_of, written_since
    from .offline import Options, Progress, examine, read, run_examples, vocabulary
    from .session import MEMORY_MB, Session

__getattr__ = lazy_face(__name__)
