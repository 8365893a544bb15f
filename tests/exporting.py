"""A real `perfmon export prometheus` for tests, and what its page says."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics_page
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from terminals import wait

from perfmon.exporters.metric_names import Places
from perfmon.exporters.metrics_page import Known, metrics_of

Samples = dict[str, list[tuple[dict[str, str], float]]]


class Exporting:
    """One that runs."""

    def __init__(self, process: subprocess.Popen[str], url: str, messages: Path) -> None:
        self.process, self.url, self._messages = process, url, messages

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        host, _, port = self.url.removeprefix("http://").rpartition(":")
        return host.strip("[]"), int(port)

    @property
    def messages(self) -> str:
        """What it told on stderr."""
        return self._messages.read_text()

    def get(self, path: str = "/metrics", accept: str = "") -> str:
        """A page."""
        request = urllib.request.Request(self.url + path, headers={"Accept": accept} if accept else {})  # noqa: S310
        with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310 - our own server
            text: str = answer.read().decode()
        return text

    def scrape(self) -> Samples:
        """The samples of the page, by name."""
        found: Samples = {}
        for family in text_string_to_metric_families(self.get()):
            for sample in family.samples:
                found.setdefault(sample.name, []).append((dict(sample.labels), sample.value))
        return found

    def until(self, true: Callable[[Samples], object]) -> Samples:
        """The first page of which that is so."""
        pages: list[Samples] = []

        def came() -> bool:
            pages[:] = [self.scrape()]
            return bool(true(pages[0]))

        wait(came, self.messages)
        return pages[0]

    def end(self, number: int = signal.SIGTERM) -> int:
        """Tells it to end; its exit code."""
        self.process.send_signal(number)
        return self.process.wait(30)


def page(known: Known, places: Places | None = None, *, openmetrics: bool = False) -> str:
    """What a scrape of these metrics gets."""

    class Registry(Collector):
        def collect(self) -> Iterator[Metric]:
            return metrics_of(known, places or Places())

    made: bytes = (openmetrics_page if openmetrics else generate_latest)(Registry())
    return made.decode()


def environment(folder: Path) -> dict[str, str]:
    """Without any settings of the user's."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PERFMON")}
    return env | {"XDG_CONFIG_HOME": str(folder / "config"), "PYTHONPATH": os.pathsep.join(sys.path)}


@contextmanager
def exporting(folder: Path, *arguments: str, port: int = 0) -> Iterator[Exporting]:
    """One in a folder, from when it listens until the end of the context."""
    messages = folder / "stderr.txt"
    command = [sys.executable, "-m", "perfmon", "export", "prometheus", *arguments, "--port", str(port)]
    with messages.open("w") as stderr:
        process = subprocess.Popen(command, cwd=folder, env=environment(folder), stderr=stderr, text=True)
    try:
        wait(lambda: "metrics are at" in messages.read_text() or process.poll() is not None, "it listens")
        match = re.search(r"http://\S+(?=/metrics)", messages.read_text())
        assert match, messages.read_text()
        yield Exporting(process, match[0], messages)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(30)


def caught_up(samples: Samples) -> bool:
    """What the logs held was read and judged."""
    live = any(labels["state"] != "loading" for labels, _ in samples["perfmon_monitor_state"])
    return live and "perfmon_verdict_severity" in samples and any(name.startswith("perfmon_last_") for name in samples)
