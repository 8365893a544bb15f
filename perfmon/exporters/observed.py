"""What is being looked at: the run, its logs, the machines that are reached over SSH."""

from __future__ import annotations

from perfmon import __version__
from perfmon.picture import Picture, SourceNow
from perfmon.snapshot import Snapshot
from perfmon.sources.remote.states import HostState

from .families import Families


def add_run(families: Families, picture: Picture) -> None:
    """What the monitor does, and how much it has read."""
    families.info("build", "The perfmon that measures", version=__version__)
    families.gauge("monitor_state", "1 for what the monitor does: loading, live, ended", 1.0, state=picture.state.value)
    families.counter("run_lines", "Lines that were read of all logs", picture.lines)
    families.gauge("run_window_seconds", "The most that the diagnosis looks back", picture.window_s)
    families.gauge("run_loaded_ratio", "Share of what the logs held already that was read", _loaded(picture.progress))
    families.gauge(
        "run_stale_seconds",
        "Age of the newest line where that is too old for a verdict, else 0",
        picture.stale_s or 0.0,
    )
    if picture.snapshot is not None:
        _add_diagnosis(families, picture.snapshot)


def _loaded(progress: float | None) -> float:
    return 1.0 if progress is None else progress


def _add_diagnosis(families: Families, snapshot: Snapshot) -> None:
    families.gauge("run_observed_seconds", "How much of the window was observed", snapshot.run.wall_s)
    for state, count in (("complete", snapshot.traces_complete), ("partial", snapshot.traces_partial)):
        families.gauge("run_traces", "Weight updates that were followed, wholly or in part", count, state=state)
    for kind, count in snapshot.dropped.items():
        families.gauge("run_thinned_out", "What was forgotten again to keep within memory, by kind", count, kind=kind)


def add_sources(families: Families, picture: Picture) -> None:
    """Every log."""
    for source in picture.sources:
        _add_source(families, source)


def _add_source(families: Families, source: SourceNow) -> None:
    log = source.name
    families.counter("source_bytes", "Bytes that were read, by log", source.bytes, log=log)
    families.counter("source_lines", "Lines that were read, by log", source.lines, log=log)
    families.counter("source_events", "Lines that a pattern recognised, by log", source.events, log=log)
    families.counter("source_errors", "What could not be read, by log", source.errors, log=log)
    families.counter("source_skipped", "Recognised lines that could not be meant, by log", source.skipped, log=log)
    families.gauge("source_age_seconds", "Seconds since something was last read, by log", source.age_s, log=log)
    families.gauge(
        "source_state",
        "1 for how far a log speaks of the present: fresh, lagging, stale, waiting, ended",
        1.0,
        log=log,
        state=source.freshness.value,
    )
    families.info("source", "What a log was recognised as", log=log, format=source.format)
    families.gauge(
        "source_clock_offset_seconds", "Clock of a server's log against its client's", source.offset_s, log=log
    )


def add_links(families: Families, picture: Picture) -> None:
    """The machines that are watched over SSH."""
    for link in picture.links:
        _add_link(families, link)


def _add_link(families: Families, link: HostState) -> None:
    families.gauge(
        "link_state",
        "1 for how a machine is reached: connecting, live, stale, reconnecting, refused",
        1.0,
        host=link.name,
        state=link.phase.value,
    )
    families.gauge("link_age_seconds", "Seconds since a machine answered last", link.age_s, host=link.name)
    families.counter("link_reconnects", "How often a lost connection was made again", link.reconnects, host=link.name)
    if link.clock is not None:
        families.gauge(
            "link_clock_offset_seconds",
            "How far a machine's clock is ahead of ours",
            link.clock.seconds,
            host=link.name,
        )
