"""Traces of PyTorch's profiler and of Nsight Systems: where the time of each GPU goes, and why it is idle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from .analysis import Gap, GpuUse, NamedRange
    from .job import Profile, holds_traces, read_profile
    from .shares import Cover
    from .signals import BY_NAME, STAGES, WHOLE, as_runs, compared_by
    from .trace import TraceError
    from .waits import GroupUse

__getattr__ = lazy_face(__name__)
