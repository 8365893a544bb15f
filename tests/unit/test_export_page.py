"""The page for Prometheus: what it says, that both of its forms can be read, and that nothing hostile gets through."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import credentials
import pictures
import pytest
import snapshots
from exporting import page
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from perfmon.core.stats import summarise
from perfmon.diagnosis.summary import Part
from perfmon.exporters.metric_names import Families, Places, label_name, named
from perfmon.exporters.metrics_page import Known
from perfmon.rules.signatures import load_signatures
from perfmon.sources.pollers.reading import Area, Reading, as_recorded
from perfmon.sources.remote.model import HostState, Phase
from perfmon.store.latest_readings import LatestReadings
from perfmon.viewmodel import AlertState, Freshness, MonitorState

Labels = dict[str, str]
NOW = pictures.START + 600.0


def part(metric: str = "queue_ms", values: tuple[float, ...] = (200.0, 12_000.0), **changes: Any) -> Part:
    """A metric of the orchestrator's log."""
    made = Part(metric, "orchestrator.log", "", "ms", summarise(values), values[-1], "critical", 100.0, 1000.0)
    return replace(made, **changes)


def result_of(known: Known | MonitorState, places: Places | None = None) -> dict[str, list[tuple[Labels, float]]]:
    """The samples of a page by name, which must be the same in both of its forms."""
    known = known if isinstance(known, Known) else Known(known)
    text = page(known, places)
    samples = list(_samples(read_text(text)))
    other = list(_samples(read_openmetrics(page(known, openmetrics=True))))  # type: ignore[no-untyped-call]
    if places is None:
        assert sorted(samples, key=repr) == sorted(other, key=repr)
    found: dict[str, list[tuple[Labels, float]]] = {}
    for name, labels, value in samples:
        found.setdefault(name, []).append((labels, value))
    return found


def _samples(families: Any) -> Iterator[tuple[str, Labels, float]]:
    for family in families:
        assert family.documentation
        assert family.name.startswith("perfmon_")
        for sample in family.samples:
            yield sample.name, sample.labels, sample.value


# --- names ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("metric", "name", "value", "outside"),
    [
        ("queue_ms", "queue_seconds", 250.0, 0.25),
        ("trainer_step_s", "trainer_step_seconds", 34.0, 34.0),
        ("trunc_pct", "trunc_ratio", 58.0, 0.58),
        ("kv_usage", "kv_usage_ratio", 97.0, 0.97),
        ("peak_mem_gib", "peak_mem_bytes", 2.0, 2.0 * (1 << 30)),
        ("mem_used_mb", "mem_used_bytes", 3.0, 3.0 * (1 << 20)),
        ("rx_mb_s", "rx_bytes_per_second", 3.0, 3e6),
        ("retrans_per_s", "retrans_per_second", 3.0, 3.0),
        ("preemptions_per_min", "preemptions_per_second", 6.0, 0.1),
        ("gen_tps", "gen_tokens_per_second", 9.0, 9.0),
        ("sm_mhz", "sm_hertz", 1980.0, 1.98e9),
        ("power_w", "power_watts", 371.0, 371.0),
        ("reward", "reward", 0.5, 0.5),
        ("my metric-é", "my_metric_", 1.0, 1.0),
    ],
)
def test_values_are_told_in_base_units(metric: str, name: str, value: float, outside: float) -> None:
    assert named(metric).base == name
    assert value * named(metric).factor == pytest.approx(outside)


def test_fields_of_findings_take_no_name_that_means_something_else() -> None:
    assert [label_name(key) for key in ("url", "state", "job", "__name__", "0rank", "a-b")] == [
        "url", "identity_state", "identity_job", "identity___name__", "identity_0rank", "a_b",
    ]  # fmt: skip


# --- what it says -----------------------------------------------------------------------------------------------------
def test_metrics_with_their_window_their_limits_and_their_level() -> None:
    reload = part("rpc_ms.reload_weights", level="good")
    found = result_of(Known(pictures.picture(), (part(), part(group="rank=1", level="warning"), reload)))
    labels = {"metric": "queue_ms", "log": "orchestrator.log", "group": "", "op": ""}
    assert (labels, 12.0) in found["perfmon_last_queue_seconds"]
    assert ({**labels, "group": "rank=1", "stat": "max"}, 12.0) in found["perfmon_window_queue_seconds"]
    window = {labels["stat"]: value for labels, value in found["perfmon_window_queue_seconds"] if not labels["group"]}
    assert window["p50"] == pytest.approx(6.1)
    assert [value for _, value in found["perfmon_level"]] == [2.0, 1.0, 0.0]
    assert found["perfmon_limit_queue_seconds"] == [
        ({"metric": "queue_ms", "op": "", "limit": "good", "worse": "above"}, 0.1),
        ({"metric": "queue_ms", "op": "", "limit": "critical", "worse": "above"}, 1.0),
    ]
    assert found["perfmon_last_rpc_seconds"][0][0]["op"] == "reload_weights"
    assert (labels, 2.0) in found["perfmon_samples"]


def test_findings_in_every_state_and_signatures_that_do_not_fire() -> None:
    states = list(AlertState)
    alerts = tuple(
        pictures.alert(
            number, state, finding=snapshots.finding(identity={"url": f"http://10.0.0.{number}:8000", "state": "odd"})
        )
        for number, state in enumerate(states)
    )
    found = result_of(Known(pictures.picture(*alerts), (), load_signatures()))
    assert [labels["state"] for labels, value in found["perfmon_finding"] if value == 1.0] == [*map(str, states)]
    first = found["perfmon_finding"][0][0]
    assert first == {
        "signature": "frontend-queue", "severity": "critical", "state": "pending", "url": "http://10.0.0.0:8000",
        "identity_state": "odd",
    }  # fmt: skip
    assert found["perfmon_finding_lost_seconds"][0][1] == 186.2
    assert found["perfmon_finding_occurrences"][0][1] == 14.0
    firing = {labels["signature"]: value for labels, value in found["perfmon_signature_firing"]}
    assert set(firing) == {signature.id for signature in load_signatures()}
    assert (firing["frontend-queue"], sum(firing.values())) == (2.0, 2.0)


def test_the_verdict_and_whose_the_time_was() -> None:
    found = result_of(pictures.picture())
    assert found["perfmon_verdict_info"][0][0]["signature"] == "frontend-queue"
    assert found["perfmon_verdict_severity"] == [({}, 3.0)]
    assert found["perfmon_verdict_lost_ratio"] == [({}, 0.31)]
    ledger = {labels["cause"]: value for labels, value in found["perfmon_ledger_ratio"]}
    assert ledger["frontend-queue"] == pytest.approx(0.31)
    healthy = result_of(pictures.picture(snapshot=snapshots.snapshot(verdict=None)))
    assert "perfmon_verdict_info" not in healthy
    assert healthy["perfmon_verdict_severity"] == healthy["perfmon_verdict_lost_seconds"] == [({}, 0.0)]


def test_logs_and_hosts() -> None:
    stale = pictures.source(index=1, name="trainer.log", freshness=Freshness.STALE, age_s=None, offset_s=None)
    link = HostState("gpu-1", Phase.RECONNECTING, 12.0, 3, 2, "no route", 4, None)
    found = result_of(pictures.picture(sources=(pictures.source(), stale), links=(link,)))
    assert found["perfmon_source_lines_total"][0] == ({"log": "orchestrator.log"}, 1000.0)
    assert found["perfmon_source_age_seconds"] == [({"log": "orchestrator.log"}, 0.4)]
    assert [labels["state"] for labels, _ in found["perfmon_source_state"]] == ["fresh", "stale"]
    assert found["perfmon_link_state"] == [({"host": "gpu-1", "state": "reconnecting"}, 1.0)]
    assert found["perfmon_link_reconnects_total"] == [({"host": "gpu-1"}, 3.0)]


def test_a_monitor_that_has_read_nothing_yet() -> None:
    found = result_of(pictures.picture(snapshot=None, sources=(), progress=0.25))
    assert found["perfmon_run_loaded_ratio"] == [({}, 0.25)]
    assert "perfmon_verdict_severity" not in found


# --- what was polled --------------------------------------------------------------------------------------------------
def polled(*readings: tuple[Reading, float]) -> MonitorState:
    """What was seen, each so many seconds ago."""
    machines = LatestReadings()
    for reading, ago_s in readings:
        machines.take("a100-0", as_recorded(reading), NOW - ago_s)
    return pictures.picture(now=NOW, seen=machines.seen())


def test_gpus_hosts_and_queues() -> None:
    gpu = Reading(
        Area.GPU, "0", {"util_pct": 97.0, "mem_used_mb": 1024.0, "throttled": 1.0},
        {"model": "H100", "state": "ok", "throttle": "sw_power_cap"},
    )  # fmt: skip
    found = result_of(
        polled(
            (gpu, 0.5),
            (Reading(Area.HOST, "all", {"cpu_pct": 50.0}), 2.0),
            (Reading(Area.QUEUE, "http://e:8000", {"running": 7.0}, {"kind": "vllm"}), 2.0),
            (Reading(Area.VALUE, "depth", {"value": 3.0}), 2.0),
        )
    )
    which = {"host": "a100-0", "gpu": "0"}
    assert found["perfmon_gpu_util_ratio"] == [(which, 0.97)]
    assert found["perfmon_gpu_mem_used_bytes"] == [(which, float(1 << 30))]
    assert found["perfmon_gpu_info"] == [({**which, "model": "H100"}, 1.0)]
    assert found["perfmon_gpu_state"] == [({**which, "state": "ok"}, 1.0)]
    assert found["perfmon_gpu_throttle"] == [({**which, "throttle": "sw_power_cap"}, 1.0)]
    assert found["perfmon_host_cpu_ratio"] == [({"host": "a100-0"}, 0.5)]
    assert found["perfmon_queue_running"] == [({"host": "a100-0", "queue": "http://e:8000"}, 7.0)]
    assert found["perfmon_value_value"] == [({"host": "a100-0", "name": "depth"}, 3.0)]
    ages = {labels["area"]: value for labels, value in found["perfmon_reading_age_seconds"]}
    assert ages == {"gpu": 0.5, "host": 2.0, "queue": 2.0, "value": 2.0}


def test_cores_are_series_and_no_label_that_changes() -> None:
    words = {"cores_busy": "09-", "cores_iowait": "500"}
    families = result_of(polled((Reading(Area.HOST, "all", {"cpu_pct": 33.0}, words), 1.0)))
    busy = {labels["core"]: value for labels, value in families["perfmon_host_cores_busy_ratio"]}
    assert busy == {"0": 0.05, "1": 0.95}
    assert len(families["perfmon_host_cores_iowait_ratio"]) == 3
    assert not {"perfmon_host", "perfmon_host_info"} & families.keys()


def test_old_readings_are_not_taken_for_new_ones() -> None:
    found = result_of(polled((Reading(Area.GPU, "0", {"util_pct": 97.0}), 301.0)))
    assert "perfmon_gpu_util_ratio" not in found
    assert found["perfmon_reading_age_seconds"][0][1] == 301.0


@pytest.mark.parametrize("area", list(Area))
def test_every_kind_of_thing_can_be_told(area: Area) -> None:
    found = result_of(polled((Reading(area, "a thing", {"took_ms": 1.0}, {"why": "no answer", "kind": "x"}), 1.0)))
    assert found[f"perfmon_{area.value}_took_seconds"][0][1] == pytest.approx(0.001)


# --- hostile input, secrets, bounds -----------------------------------------------------------------------------------
HOSTILE = [
    snapshots.HOSTILE,
    'quote " back \\ newline \n} 1 2\n# TYPE x gauge',
    "\\",
    '"',
    "\ud800 lone",
    "x" * 100_000,
    "",
    " ",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_a_value(text: str) -> None:
    finding = snapshots.finding(identity={"url": text, text: "odd key"})
    verdict = snapshots.snapshot().verdict
    assert verdict is not None
    found = result_of(
        Known(
            pictures.picture(
                pictures.alert(finding=finding), sources=(pictures.source(name=text),),
                snapshot=snapshots.snapshot(verdict=replace(verdict, title=text)),
            ),
            (part(text or "x", source=text, group=text),),
        )
    )  # fmt: skip
    plain = {name for name in result_of(pictures.picture()) if "perfmon_last_" not in name}
    assert plain <= set(found)
    [name] = [name for name in found if name.startswith("perfmon_last_")]
    [(labels, value)] = found[name]
    assert value == 12_000.0 * named(text or "x").factor
    assert not {"\n", "\x1b", "\x00", "\r"} & set(labels["log"])
    assert max(map(len, labels.values())) <= 200


@pytest.mark.parametrize(("text", "shown"), credentials.CREDENTIALS)
def test_no_secret_gets_out(text: str, shown: str) -> None:
    known = Known(pictures.picture(sources=(pictures.source(name=text),)), (part(group=text),))
    made = page(known)
    found = {labels["group"] for labels, _ in result_of(known)["perfmon_last_queue_seconds"]}
    assert found == {shown}
    assert text not in made


def test_a_secret_that_only_its_name_tells() -> None:
    finding = snapshots.finding(identity={"api_key": "abcd-1234-efgh"})
    assert "abcd-1234" not in page(Known(pictures.picture(pictures.alert(finding=finding))))


def test_what_is_no_number_is_left_out() -> None:
    values = (float("nan"), float("inf"), float("-inf"))
    found = result_of(Known(pictures.picture(), tuple(part(group=str(value), last=value) for value in values)))
    assert "perfmon_last_queue_seconds" not in found


def test_a_page_is_bounded_and_says_what_it_left_out() -> None:
    many = tuple(part(group=f"rank={at:05d}") for at in range(3000))
    found = result_of(Known(pictures.picture(), many))
    left = {labels["family"]: value for labels, value in found["perfmon_export_left_out_series"]}
    assert len(found["perfmon_last_queue_seconds"]) == 2000
    assert left["perfmon_last_queue_seconds"] == 1000.0
    assert left[""] == sum(value for family, value in left.items() if family)
    crowd = tuple(part(f"metric{at}_ms", group=f"{at}") for at in range(5000))
    whole = result_of(Known(pictures.picture(), crowd))
    assert sum(map(len, whole.values())) <= 20_000 + len(whole["perfmon_export_left_out_series"])


def test_who_had_a_place_keeps_it() -> None:
    places = Places(most_of_family=2)

    def groups(*names: str) -> list[str]:
        families = Families()
        for name in names:
            families.gauge("x", "about", 1.0, group=name)
        made = {metric.name: metric for metric in families.metrics(places)}
        return [sample.labels["group"] for sample in made["perfmon_x"].samples]

    assert groups("m", "n") == ["m", "n"]
    assert groups("a", "m", "n", "z") == ["m", "n"]
    assert groups("a", "n", "z") == ["n", "a"]


def test_names_that_became_alike_are_told_once_and_counted() -> None:
    found = result_of(Known(pictures.picture(), (part(group="x" * 300), part(group="x" * 300 + "y"))))
    assert len(found["perfmon_last_queue_seconds"]) == 1
    left = {labels["family"]: value for labels, value in found["perfmon_export_left_out_series"]}
    assert left["perfmon_last_queue_seconds"] == 1.0
