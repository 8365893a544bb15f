"""A real Prometheus scrapes a real exporter: series, alerts and the queries of the dashboard."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from exporting import caught_up, exporting
from terminals import wait

from perfmon.cli import main
from perfmon.demo.output import write_demo

pytestmark = pytest.mark.system
ODD_SIGNATURE = """
schema = 1
id = "odd_x"
title = "{{ $labels.x }} \\"quoted\\" \\\\ : # - %"
kind = "bottleneck"
rank = 1
meaning = "line {{ two }}: é"
sentence = "x"
advice = ["Do {{ this }}"]
[[on]]
metric = "queue_ms"
[[condition]]
type = "compare"
metric = "queue_ms"
band = "critical"
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without settings, and the programs of the package."""
    if shutil.which("prometheus") is None or shutil.which("promtool") is None:
        pytest.skip("needs prometheus and promtool (Debian: prometheus)")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("PERFMON_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)


class Prometheus:
    """A server that runs."""

    def __init__(self, url: str) -> None:
        self._url = url

    def ask(self, path: str, **parameters: str) -> Any:
        """The data of an answer of its API; None while it does not answer."""
        try:
            with urllib.request.urlopen(f"{self._url}{path}?{urllib.parse.urlencode(parameters)}") as answer:  # noqa: S310
                document = json.load(answer)
        except OSError:
            return None
        assert document["status"] == "success", document
        return document["data"]

    def query(self, expression: str) -> list[Any]:
        """What an expression gives now."""
        data = self.ask("/api/v1/query", query=expression)
        return list(data["result"]) if data else []


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[Prometheus]:
    """A server that scrapes one exporter every second, by the rules in `rules.yml`."""
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\n"
        "rule_files: [rules.yml]\n"
        f"scrape_configs: [{{job_name: perfmon, static_configs: [{{targets: ['{target}']}}]}}]\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [
        "prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data", f"--web.listen-address={address}",
        "--log.level=warn",
    ]  # fmt: skip
    with (folder / "prometheus.txt").open("w") as message:
        process = subprocess.Popen(command, cwd=folder, stdout=message, stderr=message)
    try:
        yield Prometheus(f"http://{address}")
        assert process.poll() is None, (folder / "prometheus.txt").read_text()
    finally:
        process.terminate()
        try:
            process.wait(20)
        finally:
            process.kill()


def test_series_alerts_and_every_query_of_the_dashboard(tmp_path: Path) -> None:
    write_demo(tmp_path / "logs", "frontend-queue", 0, 10.0)
    assert main(["export", "alert-rules", "-o", "rules.yml"]) == main(["export", "grafana", "-o", "board.json"]) == 0
    with exporting(tmp_path, "logs") as running, prometheus(tmp_path, running.url.removeprefix("http://")) as server:
        running.until(caught_up)
        wait(lambda: server.query('up{job="perfmon"} == 1'), "it scrapes")
        wait(lambda: server.query("perfmon_finding"), "the finding is there")
        [finding] = server.query("perfmon_finding")
        assert finding["metric"]["signature"] == "frontend-queue"
        assert finding["metric"]["url"] == "http://10.0.0.5:8000"
        [queue] = server.query('perfmon_window_queue_seconds{metric="queue_ms", stat="p50"}')

        def all_series() -> bool:
            """Of pollers, which may tell of something for the first time between the two, too."""
            result = {tuple(sorted(labels.items())) for labels, _ in running.scrape()["perfmon_level"]}
            return len(server.query("perfmon_level")) == len(result)

        wait(all_series, "all series are there")
        assert 5.0 < float(queue["value"][1]) < 30.0

        wait(lambda: _alerts(server), "the alert fires")
        [alert] = _alerts(server)
        assert alert["state"] == "firing"
        assert alert["labels"]["severity"] == "critical"
        assert alert["labels"]["url"] == "http://10.0.0.5:8000"
        assert alert["annotations"]["summary"].startswith("Front-end queue saturation: ")
        assert alert["annotations"]["summary"].endswith("% of the window lost")

        board = json.loads((tmp_path / "board.json").read_text())
        answered = {panel["title"]: _answers(server, panel) for panel in board["panels"]}
        shown = {"Verdict", "Which", "Lost of the window", "Time breakdown", "Findings", "queue_ms", "kv_usage"}
        assert {title for title in shown if not answered[title]} == set()
        targets = server.ask("/api/v1/targets")["activeTargets"]
        assert [target["lastError"] for target in targets] == [""]


def _alerts(server: Prometheus) -> list[Any]:
    result = server.ask("/api/v1/alerts")["alerts"]
    return [alert for alert in result if alert["labels"]["alertname"] == "PerfmonFrontendQueue"]


def _answers(server: Prometheus, panel: dict[str, Any]) -> bool:
    """Whether the panel shows something; a query that is wrong fails."""
    expressions = [target["expr"] for target in panel.get("targets", ())]
    made = [one.replace("$instance", ".*").replace("$__rate_interval", "1m") for one in expressions]
    answers = [server.query(one) for one in made]
    return any(answers)


def test_promtool_finds_nothing_wrong_with_rules_and_page(tmp_path: Path) -> None:
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "odd.toml").write_text(ODD_SIGNATURE, encoding="utf-8")
    write_demo(tmp_path / "logs", "kv-cache-pressure", 0, 10.0)
    assert main(["export", "alert-rules", "--signatures", "odd", "-o", "rules.yml"]) == 0
    checked = subprocess.run(
        ["promtool", "check", "rules", "--lint-fatal", "rules.yml"], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    with exporting(tmp_path, "logs") as running:
        running.until(caught_up)
        page = running.get()
    checked = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


RULE_TEST = """
rule_files: [rules.yml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - series: 'perfmon_finding{signature="frontend-queue",severity="warning",state="pending",url="u"}'
        values: '1 _ _ _ _'
      - series: 'perfmon_finding{signature="frontend-queue",severity="warning",state="firing",url="u"}'
        values: '_ 1 stale _ _'
      - series: 'perfmon_finding{signature="frontend-queue",severity="warning",state="unknown",url="u"}'
        values: '_ _ 1 stale _'
      - series: 'perfmon_finding{signature="frontend-queue",severity="warning",state="resolved",url="u"}'
        values: '_ _ _ 1 1'
      - series: 'perfmon_finding_lost_ratio{signature="frontend-queue",url="u"}'
        values: '0.1 0.25 0.5 0.5 0.5'
    alert_rule_test:
      - {eval_time: 0m, alertname: PerfmonFrontendQueue, exp_alerts: []}
      - eval_time: 1m
        alertname: PerfmonFrontendQueue
        exp_alerts:
          - exp_labels: {signature: frontend-queue, severity: warning, url: u, kind: bottleneck}
            exp_annotations: {summary: "Front-end queue saturation: 25% of the window lost", OTHERS}
      - {eval_time: 3m, alertname: PerfmonFrontendQueue, exp_alerts: []}
"""


def test_an_alert_fires_with_its_finding_and_no_longer(tmp_path: Path) -> None:
    assert main(["export", "alert-rules", "-o", "rules.yml"]) == 0
    rule = (tmp_path / "rules.yml").read_text().partition("PerfmonFrontendQueue")[2].partition("- alert")[0]
    others = [
        line.strip() for line in rule.splitlines() if line.strip().startswith(("description", "fix", "explained"))
    ]
    (tmp_path / "test.yml").write_text(RULE_TEST.replace("OTHERS", ", ".join(others)))
    done = subprocess.run(["promtool", "test", "rules", "test.yml"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
