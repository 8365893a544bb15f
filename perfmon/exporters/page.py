"""The page that Prometheus scrapes: everything that is known at one moment, in its text format or as OpenMetrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from prometheus_client import exposition
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from perfmon.parts import Part
from perfmon.picture import Picture
from perfmon.rules.schema import Signature

from .families import Families, Places
from .judged import add_findings, add_goodput, add_ledger, add_run_state, add_verdict
from .measured import add_measured
from .observed import add_links, add_run, add_sources
from .polled import add_polled

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


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


class _Page(Collector):
    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = list(metrics)

    def collect(self) -> Iterator[Metric]:
        return iter(self._metrics)


def page(known: Known, places: Places, media_type: str = TEXT) -> bytes:
    """The page as one of the two media types; `places` is what the pages of one exporter share."""
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
    made = _Page(families.metrics(places))
    if media_type == OPENMETRICS:
        text: bytes = openmetrics.generate_latest(made)  # type: ignore[no-untyped-call]
        return text
    return exposition.generate_latest(made)


def wanted(accept: str) -> str:
    """The media type to answer with: OpenMetrics for those who ask for it."""
    return OPENMETRICS if "application/openmetrics-text" in accept.lower() else TEXT
