"""The page that Prometheus scrapes: the metrics of everything that is known at one moment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from prometheus_client.metrics_core import Metric

from perfmon.parts import Part
from perfmon.picture import Picture
from perfmon.rules.schema import Signature

from .families import Families, Places
from .judged import add_findings, add_goodput, add_ledger, add_run_state, add_verdict
from .measured import add_measured
from .observed import add_links, add_run, add_sources
from .polled import add_polled


@dataclass(frozen=True, slots=True)
class Known:
    """Parts of a page."""

    picture: Picture
    parts: Sequence[Part] = ()
    signatures: Sequence[Signature] = ()
    took_s: float = 0.0
    """Duration of the measurement of `parts`."""
    current: bool = True
    """`parts` are of this moment: the monitor answered in time."""


def metrics_of(known: Known, places: Places) -> Iterator[Metric]:
    """All families of a page; `places` is what the pages of one exporter share."""
    families = Families()
    add_run(families, known.picture)
    add_sources(families, known.picture)
    add_links(families, known.picture)
    add_findings(families, known.picture, known.signatures)
    if known.picture.snapshot is not None:
        add_verdict(families, known.picture.snapshot)
        add_ledger(families, known.picture.snapshot)
        add_run_state(families, known.picture.snapshot)
        add_goodput(families, known.picture.snapshot)
    add_polled(families, known.picture.seen, known.picture.asked)
    add_measured(families, known.parts)
    families.gauge("export_measuring_seconds", "Seconds it took to collect this page", known.took_s)
    families.gauge("export_current", "0 if the monitor was too busy to update the values of this page", known.current)
    return families.metrics(places)
