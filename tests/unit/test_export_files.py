"""Alert rules and the dashboard: made from the data, the same each time, and about series that there are."""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pictures
import pytest
import snapshots
from exporting import caught_up, exporting, page

from perfmon.cli import main
from perfmon.demo.output import write_demo
from perfmon.diagnosis.result import Goal
from perfmon.exporters.metric_names import named
from perfmon.exporters.metrics_page import Known
from perfmon.exporters.provisioning import render_alert_rules
from perfmon.pipeline.offline import vocabulary
from perfmon.rules.bands import load_bands
from perfmon.rules.signatures import load_signatures
from perfmon.sources.formats.loader import load_packs
from perfmon.sources.pollers.reading import Area, Reading, as_recorded
from perfmon.sources.remote.model import HostState, Phase
from perfmon.store.latest_readings import LatestReadings

NAMES = re.compile(r"\bperfmon_\w+")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings of the user's."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("PERFMON_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)


def made() -> dict[str, Any]:
    """The dashboard."""
    assert main(["export", "grafana", "-o", "dashboard.json"]) == 0
    document: dict[str, Any] = json.loads(Path("dashboard.json").read_text(encoding="utf-8"))
    return document


def rules() -> str:
    """The alert rules."""
    assert main(["export", "alert-rules", "-o", "rules.yml"]) == 0
    return Path("rules.yml").read_text(encoding="utf-8")


def expressions(document: dict[str, Any]) -> list[str]:
    """Every query of the dashboard."""
    return [target["expr"] for panel in document["panels"] for target in panel.get("targets", ())]


def test_both_are_the_same_each_time(capsys: pytest.CaptureFixture[str]) -> None:
    for kind in ("alert-rules", "grafana"):
        assert main(["export", kind]) == 0
        printed = capsys.readouterr().out
        assert main(["export", kind, "-o", "out"]) == 0
        assert capsys.readouterr() == ("", "perfmon: wrote out\n")
        assert Path("out").read_text(encoding="utf-8") == printed


def test_a_place_that_cannot_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "grafana", "-o", "gone/there.json"]) == 2
    assert capsys.readouterr().err == (
        "perfmon: gone/there.json: cannot be written: No such file or directory (choose another place)\n"
    )


# --- the dashboard ----------------------------------------------------------------------------------------------------
def test_panels_lie_beside_each_other_and_are_whole() -> None:
    document = made()
    panels = document["panels"]
    assert document["schemaVersion"] == 39
    assert [panel["id"] for panel in panels] == list(range(1, len(panels) + 1))
    cells = [
        set(itertools.product(range(at["x"], at["x"] + at["w"]), range(at["y"], at["y"] + at["h"])))
        for at in (panel["gridPos"] for panel in panels)
    ]
    assert all(x < 24 for one in cells for x, _ in one)
    assert sum(map(len, cells)) == len(set().union(*cells)), "panels overlap"
    for panel in panels:
        assert panel["type"] in {"row", "stat", "timeseries", "table", "state-timeline"}
        assert panel["title"]
        if panel["type"] != "row":
            assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
            references = [target["refId"] for target in panel["targets"]]
            assert len(set(references)) == len(references) > 0
    assert {variable["name"] for variable in document["templating"]["list"]} == {"datasource", "instance"}


def test_every_band_and_every_signature_is_in_both() -> None:
    shown = "".join(expressions(made()))
    ruled = rules()
    for metric in load_bands().table.keys() & vocabulary().metrics:
        assert f'metric="{metric}"' in shown
        assert json.dumps(f'perfmon_level{{metric="{metric}"}} == 2') in ruled
    titles = json.dumps(made(), ensure_ascii=False)
    for signature in load_signatures():
        if signature.kind != "note":
            assert signature.title in titles
            assert f'signature=\\"{signature.id}\\"' in ruled


def test_thresholds_are_the_bands_in_base_units() -> None:
    panels = {panel["title"]: panel for panel in made()["panels"]}
    steps = panels["queue_ms"]["fieldConfig"]["defaults"]["thresholds"]["steps"]
    assert steps == [
        {"value": None, "color": "green"}, {"value": 0.1, "color": "orange"}, {"value": 1.0, "color": "red"},
    ]  # fmt: skip
    assert panels["queue_ms"]["fieldConfig"]["defaults"]["unit"] == "s"
    fill = panels["queue_fill"]["fieldConfig"]["defaults"]["thresholds"]["steps"]
    assert [(step["value"], step["color"]) for step in fill] == [
        (None, "red"), (pytest.approx(0.3), "orange"), (pytest.approx(0.8), "green"),
    ]  # fmt: skip


def test_every_series_that_they_speak_of_is_on_a_real_page(tmp_path: Path) -> None:
    """The built-in run, and the samples of every format, which tell what that run does not."""
    write_demo(tmp_path / "logs", "frontend-queue", 0, 10.0)
    for pack in load_packs():
        texts = [sample.text for pattern in pack.patterns for sample in pattern.samples]
        Path(tmp_path, "logs", f"{pack.id}.log").write_text("\n".join(texts) + "\n")
    with exporting(tmp_path, "logs", "--window", "3000d") as running:
        known = set(running.until(caught_up))
    known |= _names_of_pollers()
    known |= {
        f"perfmon_limit_{named(one.metric).base}"
        for one in load_bands().table.values()
        if one.unless or one.plausible_from
    }
    shown = {name for expression in expressions(made()) for name in NAMES.findall(expression)}
    ruled = set(NAMES.findall("".join(re.findall(r"expr: (.*)", rules()))))
    assert {name for name in shown | ruled if name not in known} == set()
    page_of_docs = (Path(__file__).parents[2] / "docs" / "export.md").read_text(encoding="utf-8")
    message = re.findall(r"`(perfmon_\w+?)(_…)?`", page_of_docs)
    assert len(message) > 30
    assert [
        name for name, more in message if not any(one == name or (more and one.startswith(name)) for one in known)
    ] == []


def _names_of_pollers() -> set[str]:
    """The families of a page on which every value stands that the seam of the pollers lists, a lost host, and a run
    whose goal, limit and GPUs are known."""
    machines = LatestReadings()
    for area, names in _documented():
        reading = Reading(area, "x", dict.fromkeys(names, 1.0), {"state": "ok"})
        machines.take("gpu-1", as_recorded(reading), pictures.START)
    link = HostState("gpu-1", Phase.RECONNECTING, 12.0, 3, 2, "no route", 4, None)
    seen, known = machines.seen(), snapshots.snapshot()
    run = replace(
        known.run, goal=Goal(3.0, 9.0, "step", 60.0), limit_left_s=90.0, role_gpus={"trainer": frozenset({"0"})}
    )
    snapshot = replace(known, run=run, seen=seen)
    picture = pictures.picture(now=pictures.START, seen=seen, links=(link,), snapshot=snapshot)
    return set(re.findall(r"(?m)^perfmon_\w+", page(Known(picture))))


def _documented() -> list[tuple[Area, list[str]]]:
    [seam] = [
        node
        for node in ast.parse(Path(inspect.getfile(Area)).read_text()).body
        if isinstance(node, ast.ClassDef) and node.name == "Area"
    ]
    result = [(a, b) for a, b in itertools.pairwise(seam.body) if isinstance(a, ast.Assign) and isinstance(b, ast.Expr)]
    assert len(result) == len(Area)
    return [
        (Area(ast.literal_eval(name.value)), re.findall(r"\b[a-z]\w*\b", ast.literal_eval(about.value)))
        for name, about in result
    ]


# --- alert rules ------------------------------------------------------------------------------------------------------
SIGNATURE = """
schema = 1
id = "{id}"
title = "{{{{ $labels.x }}}} \\"quoted\\" \\\\ : # - %"
kind = "bottleneck"
rank = 1
meaning = "Line one\\nline {{{{ two }}}}: é"
sentence = "x"
advice = ["Do {{{{ this }}}}"]
[[on]]
metric = "odd_s"
[[condition]]
type = "compare"
metric = "queue_ms"
band = "critical"
"""


def test_text_of_the_data_is_no_template_and_no_yaml(tmp_path: Path) -> None:
    (tmp_path / "odd.toml").write_text(SIGNATURE.format(id="odd"), encoding="utf-8")
    text = render_alert_rules(load_signatures([tmp_path]), load_bands())
    [title] = [line for line in text.splitlines() if '\\"quoted\\"' in line]
    assert json.loads(title.partition(": ")[2]) == (
        '{{ "{{" }} $labels.x }} "quoted" \\ : # - %: {{ $value | humanizePercentage }} of the window lost'
    )
    assert 'Line one line {{ "{{" }} two }}: é' in text.replace('\\"', '"')
