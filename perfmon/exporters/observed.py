"""Metrics of the observation: the run, its logs, hosts over SSH."""

from __future__ import annotations

from perfmon import __version__
from perfmon.picture import Picture, SourceNow
from perfmon.snapshot import Snapshot
from perfmon.sources.remote.states import HostState

from .families import Families


def add_run(families: Families, picture: Picture) -> None:
    """State of the monitor, and amount of data read."""
    families.info("build", "Version of perfmon", version=__version__)
    families.gauge(
        "monitor_state", "1 for the current state of the monitor: loading, live, ended", 1.0, state=picture.state.value
    )
    families.counter("run_lines", "Lines read, all logs", picture.lines)
    families.gauge("run_window_seconds", "Length of the analysis window", picture.window_s)
    families.gauge("run_loaded_ratio", "Share of the existing log history that was read", _loaded(picture.progress))
    families.gauge(
        "run_stale_seconds",
        "Age of the newest line if it is too old for a verdict, else 0",
        picture.stale_s or 0.0,
    )
    if picture.snapshot is not None:
        _add_diagnosis(families, picture.snapshot)


def _loaded(progress: float | None) -> float:
    return 1.0 if progress is None else progress


def _add_diagnosis(families: Families, snapshot: Snapshot) -> None:
    families.gauge("run_observed_seconds", "Observed part of the window", snapshot.run.wall_s)
    for state, count in (("complete", snapshot.traces_complete), ("partial", snapshot.traces_partial)):
        families.gauge("run_traces", "Weight updates tracked, completely or partly", count, state=state)
    for kind, count in snapshot.dropped.items():
        families.gauge("run_thinned_out", "Items dropped to stay within the memory limit, by kind", count, kind=kind)


def add_sources(families: Families, picture: Picture) -> None:
    """Every log."""
    for source in picture.sources:
        _add_source(families, source)


def _add_source(families: Families, source: SourceNow) -> None:
    log = source.name
    families.counter("source_bytes", "Bytes read, by log", source.bytes, log=log)
    families.counter("source_lines", "Lines read, by log", source.lines, log=log)
    families.counter("source_events", "Recognised lines, by log", source.events, log=log)
    families.counter("source_errors", "Read errors, by log", source.errors, log=log)
    families.counter("source_skipped", "Recognised lines with implausible values, by log", source.skipped, log=log)
    families.gauge("source_age_seconds", "Seconds since the last read, by log", source.age_s, log=log)
    families.gauge(
        "source_state",
        "1 for the freshness of a log: fresh, lagging, stale, waiting, ended",
        1.0,
        log=log,
        state=source.freshness.value,
    )
    families.info("source", "Format of a log", log=log, format=source.format)
    families.gauge(
        "source_clock_offset_seconds", "Clock offset of a server log relative to its client", source.offset_s, log=log
    )


def add_links(families: Families, picture: Picture) -> None:
    """The machines that are watched over SSH."""
    for link in picture.links:
        _add_link(families, link)


def _add_link(families: Families, link: HostState) -> None:
    families.gauge(
        "link_state",
        "1 for the connection state of a host: connecting, live, stale, reconnecting, refused",
        1.0,
        host=link.name,
        state=link.phase.value,
    )
    families.gauge("link_age_seconds", "Seconds since the last response of a host", link.age_s, host=link.name)
    families.counter("link_reconnects", "Number of reconnections", link.reconnects, host=link.name)
    if link.clock is not None:
        families.gauge(
            "link_clock_offset_seconds",
            "Clock offset of a host relative to this machine",
            link.clock.seconds,
            host=link.name,
        )
