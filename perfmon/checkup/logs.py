"""Following logs on this machine, and what runs here."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from perfmon.text import plain

from .check import Finding, found, limited, missing

if TYPE_CHECKING:
    from perfmon.sources.remote.discovery import Discovery

_LIMITS = Path("/proc/sys/fs/inotify")
_FEW_WATCHES, _FEW_INSTANCES = 8192, 128
"""Former defaults of distributions: lower limits are quickly used up by editors and file managers."""
_POLLED = "perfmon checks the files every 0.25 s instead: slightly later, slightly more CPU"


def inotify(_: float) -> Finding:
    """Check inotify, and its limits."""
    try:
        from asyncinotify import Inotify

        Inotify().close()
    except (ImportError, AttributeError):
        return missing("not available on this system", _POLLED)
    except OSError as error:
        mend = "sudo sysctl fs.inotify.max_user_instances=1024"
        return missing(f"limit reached: {error.strerror}", _POLLED, mend)
    watches, instances = _limit("max_user_watches"), _limit("max_user_instances")
    told = f"{watches or '?'} watches, {instances or '?'} instances per user"
    if (watches or _FEW_WATCHES) < _FEW_WATCHES or (instances or _FEW_INSTANCES) < _FEW_INSTANCES:
        mend = "sudo sysctl fs.inotify.max_user_watches=65536 fs.inotify.max_user_instances=1024"
        return limited(told, f"limits may be reached: {_POLLED}", mend)
    return found(told)


def _limit(name: str) -> int | None:
    try:
        return int((_LIMITS / name).read_text())
    except (OSError, ValueError):
        return None


def runs(patience_s: float) -> Finding:
    """Local runs, their logs, and ports that respond to /metrics."""
    discovered = asyncio.run(_discover(patience_s))
    if discovered is None:
        return missing(
            "this system has no /proc", "perfmon without arguments finds nothing: name a source (perfmon SOURCE...)"
        )
    if not discovered.processes and not discovered.logs:
        return missing(
            "no run was found", "perfmon without arguments finds nothing", "name a source: perfmon SOURCE..."
        )
    kinds = dict.fromkeys(process.kind for process in discovered.processes)
    ports = sorted({port for process in discovered.processes for port in process.metrics})
    told = f"{', '.join(kinds) or 'no process'}; {len(discovered.logs)} logs"
    return found(f"{told}; metrics at port {', '.join(map(str, ports))}" if ports else f"{told}; no metrics")


async def _discover(patience_s: float) -> Discovery | None:
    from perfmon.sources.remote.discovery import discover, with_metrics
    from perfmon.sources.remote.files import Files
    from perfmon.sources.remote.http import open_here
    from perfmon.sources.remote.local import LocalRunner
    from perfmon.sources.remote.runner import RunnerError

    try:
        runner = await LocalRunner.open()
    except OSError:
        return None
    try:
        async with asyncio.timeout(patience_s):
            return await with_metrics(await discover(await Files.open(runner)), open_here)
    except RunnerError as error:
        if "/proc" in str(error):
            return None
        raise OSError(plain(str(error), 200)) from None
    finally:
        await runner.close()
