"""GPUs, hosts and queues on the snapshot page and in its document: what there is, as numbers, masked on wish."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
import snapshots
from machines import LINKS, seen
from pictures import picture
from snapshots import HOSTILE

from perfmon.diagnosis.result import Diagnosis
from perfmon.reports.json_report import document
from perfmon.reports.snapshot_page import cleaned, render_page
from perfmon.sources.pollers.reading import Reading

MADE = datetime(2026, 8, 21, 10, 0)
SECTIONS = ("## Hosts", "## GPUs", "## Queues", "## Sockets", "## Jobs")


def observed() -> Diagnosis:
    """Two hosts, four GPUs, an engine, seen until 2 s before the end."""
    base = snapshots.snapshot()
    return replace(base, seen=seen(base.run.end - 2.0))


def page(snapshot: Diagnosis, *, redact: bool = False) -> str:
    """The page of a live view."""
    return render_page(snapshot, picture(snapshot=snapshot, seen=snapshot.seen, links=LINKS), MADE, redact=redact)


def row(text: str, begin: str) -> list[str]:
    """The cells of the row of a table that begins so."""
    (line,) = (line for line in text.splitlines() if line.startswith(f"| {begin}"))
    return [cell.strip() for cell in line.strip("|").split(" | ")]


def test_what_was_not_observed_has_no_section() -> None:
    text = render_page(snapshots.snapshot(), None, MADE)
    assert not [title for title in SECTIONS if title in text]
    assert not {"gpus", "hosts", "queues"} & set(document(snapshots.snapshot()))


def test_each_has_its_table_with_a_course() -> None:
    text = page(observed())
    assert [title for title in SECTIONS if title not in text] == []
    gpu = row(text, "a100-0:0")
    assert gpu[1:6] == ["NVIDIA A100-SXM4-80GB", "31%", "70 of 80 GiB", "183 of 400 W", "61 °C"]
    assert gpu[-2:] == ["2 s ago", "`██▃██▃██▃██▃`"]
    assert "power cap" in row(text, "a100-1:0")
    host = row(text, "ubuntu@&#8203;a100-0")
    for cell in ("live", "\\+3 ms ± 1", "31%", "22% of 500 GiB", "/scratch/ckpt 92%, 812 GB free"):
        assert cell in host, cell
    assert row(text, "login")[1] == "reconnecting 3"
    assert row(text, "a100-0:8000")[1:6] == ["vllm", "236", "71", "91%", "5200"]
    assert "consumer too slow" in row(text, "a100-0:12321")
    assert row(text, "job 123456")[1:5] == ["running", "2h 13m", "2", "bottleneck_test"]


def test_without_links_nobody_says_how_hosts_are_reached() -> None:
    text = render_page(observed(), None, MADE)
    assert "| host | cpu |" in text
    assert "reconnecting" not in text


def test_the_document_has_numbers_as_numbers() -> None:
    made: dict[str, Any] = json.loads(json.dumps(document(observed()), allow_nan=False))
    gpu = made["gpus"][0]
    assert (gpu["host"], gpu["name"], gpu["age_s"], gpu["util_pct"]) == ("a100-0", "0", 2.0, 31.0)
    assert gpu["model"] == "NVIDIA_A100-SXM4-80GB"
    host = made["hosts"][0]
    assert (host["host"], host["cpu_pct"], host["cores"]) == ("a100-0", 31.0, 64.0)
    assert [disk["name"] for disk in host["disks"]] == ["/", "/scratch/ckpt"]
    assert host["processes"][0]["rss_mb"] == 9200.0
    assert host["sockets"][0]["verdict"] == "consumer"
    assert [(queue["area"], queue["name"]) for queue in made["queues"]] == [("queue", "8000"), ("job", "123456")]
    assert all({"host", "name", "age_s"} <= set(item) for key in ("gpus", "hosts", "queues") for item in made[key])


def test_redacted_it_names_no_host_device_or_path() -> None:
    result = page(observed(), redact=True) + json.dumps(document(cleaned(observed(), None, True)[0]))
    assert not [name for name in ("a100-0", "a100-1", "GPU-0", "scratch", "/ckpt") if name in result]
    assert "device-1" in result
    assert "host-" in result


@pytest.mark.parametrize("text", [HOSTILE, "a|b\n| c |", "`x`"])
def test_hostile_words_break_no_table(text: str) -> None:
    base = observed()
    evil = tuple(
        replace(
            one, reading=Reading(one.reading.area, text, one.reading.values, dict.fromkeys(one.reading.words, text))
        )
        for one in base.seen
    )
    result = page(replace(base, seen=evil))
    inside = [line for line in result[result.index("## Hosts") : result.index("## Sources")].splitlines() if line]
    tables = [line for line in inside if not line.startswith("## ")]
    assert all(line.startswith("|") and line.endswith("|") for line in tables)
    assert "<script>" not in result
    assert "\x1b" not in result
    assert "\x1b" not in json.dumps(document(replace(base, seen=evil)), ensure_ascii=False)
