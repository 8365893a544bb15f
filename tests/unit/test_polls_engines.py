"""Polling engines: each apart, by the names of every version, and one clear line for a page that is none."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from endpoints import Endpoint, endpoint, ok

from perfmon.core.errors import DataFileError, UsageError
from perfmon.sources.pollers import engines as dialects
from perfmon.sources.pollers.base import LocalMachine
from perfmon.sources.pollers.engines import MOST_ENGINES, EngineValues, by_engine, load_mapping
from perfmon.sources.pollers.metrics_page import Endpoint as Page
from perfmon.sources.pollers.metrics_page import read_samples
from perfmon.sources.pollers.reading import Area, Poller, PollError, Reading, format_reading, parse_reading
from perfmon.sources.pollers.request import PollRequest
from perfmon.sources.pollers.scheduler import make_pollers

VLLM, SGLANG = load_mapping("vllm"), load_mapping("sglang")


def vllm_page(running: int = 12, engine: str = "0", more: str = "", **counters: float) -> str:
    """As V1 tells one engine."""
    labels = f'{{engine="{engine}",model_name="Qwen/Qwen3-8B"}}'
    rows = [f"{name}{labels} {value}" for name, value in counters.items()]
    return "\n".join([
        "# HELP vllm:num_requests_running Number of requests in model execution batches.",
        "# TYPE vllm:num_requests_running gauge",
        f"vllm:num_requests_running{labels} {running}.0",
        f"vllm:num_requests_waiting{labels} 3.0",
        f"vllm:kv_cache_usage_perc{labels} 0.625",
        *[f"vllm:{row}" for row in rows],
        more,
    ])  # fmt: skip


def pollers(kind: str, argument: str) -> Poller:
    """The one that asks."""
    (poller,) = make_pollers(LocalMachine(), PollRequest(kind, argument))
    return poller


async def polled(kind: str, server: Endpoint, text: str) -> list[Reading]:
    """What one poll of a page tells."""
    server.serve(text)
    return list(await pollers(kind, server.url).poll())


async def test_v1() -> None:
    async with endpoint() as server:
        (reading,) = await polled("vllm", server, vllm_page())
    assert (reading.area, reading.name) == (Area.QUEUE, f"127.0.0.1:{server.port}/0")
    assert reading.values == {"running": 12.0, "waiting": 3.0, "kv_usage_pct": 62.5}
    assert reading.words == {"kind": "vllm", "model": "Qwen/Qwen3-8B"}
    assert server.requested == ["/metrics"]


async def test_v0() -> None:
    page = 'vllm:num_requests_running{model_name="m"} 4.0\nvllm:gpu_cache_usage_perc{model_name="m"} 0.5\n'
    async with endpoint() as server:
        (reading,) = await polled("vllm", server, page)
    assert reading.name == f"127.0.0.1:{server.port}"
    assert reading.values == {"running": 4.0, "kv_usage_pct": 50.0}


async def test_as_ray_serve_renames_it() -> None:
    page = 'ray_vllm_num_requests_running{model_name="m",engine="0",ReplicaId="r1"} 4.0\n'
    async with endpoint() as server:
        (reading,) = await polled("vllm", server, page)
    assert reading.name.endswith("/0/r1")


async def test_a_sick_engine_is_not_hidden_in_a_mean() -> None:
    async with endpoint() as server:
        result = await polled("vllm", server, vllm_page(100, "0") + "\n" + vllm_page(2, "1"))
    assert [(reading.name[-2:], reading.values["running"]) for reading in result] == [("/0", 100.0), ("/1", 2.0)]


def test_rates_come_from_the_second_poll_on_and_survive_a_restart() -> None:
    values = EngineValues(VLLM)

    def take(at: float, **counters: float) -> dict[str, float]:
        samples = read_samples(vllm_page(12, "0", "", **counters).encode(), VLLM.names).found
        (result,) = values.take(by_engine(samples, {}), at).values()
        return result

    assert "gen_tps" not in take(0.0, generation_tokens_total=1000.0, num_preemptions_total=0.0)
    result = take(5.0, generation_tokens_total=11000.0, num_preemptions_total=2.0)
    assert (result["gen_tps"], result["preemptions"], result["preemptions_per_min"]) == (2000.0, 2.0, 24.0)
    result = take(10.0, generation_tokens_total=500.0, num_preemptions_total=0.0)
    assert (result["gen_tps"], result["preemptions"]) == (100.0, 0.0)


def test_quantiles_of_the_window() -> None:
    values = EngineValues(VLLM)

    def take(at: float, fast: int, all_of_them: int) -> dict[str, float]:
        rows = [("0.1", fast), ("1.0", all_of_them), ("+Inf", all_of_them)]
        page = "\n".join(f'vllm:time_to_first_token_seconds_bucket{{engine="0",le="{le}"}} {n}' for le, n in rows)
        (result,) = values.take(by_engine(read_samples(page.encode(), VLLM.names).found, {}), at).values()
        return result

    assert take(0.0, 9000, 9000) == {}
    assert take(5.0, 9000, 9100) == pytest.approx({"ttft_p50_s": 0.55, "ttft_p95_s": 0.955})


def test_shares_of_what_ended_and_of_what_was_cached() -> None:
    values = EngineValues(VLLM)

    def take(at: float, stop: int, length: int) -> dict[str, float]:
        page = (
            f'vllm:request_success_total{{engine="0",finished_reason="stop"}} {stop}\n'
            f'vllm:request_success_total{{engine="0",finished_reason="length"}} {length}\n'
            f'vllm:prefix_cache_queries_total{{engine="0"}} {10 * stop}\n'
            f'vllm:prefix_cache_hits_total{{engine="0"}} {4 * stop}\n'
        )
        (result,) = values.take(by_engine(read_samples(page.encode(), VLLM.names).found, {}), at).values()
        return result

    take(0.0, 100, 10)
    assert take(5.0, 130, 20) == {"prefix_hit_pct": 40.0, "cut_pct": 25.0}
    assert "cut_pct" not in take(10.0, 131, 21), "of two requests a share says nothing"


def test_ranks_of_sglang_that_tell_the_same_are_one_engine() -> None:
    rows = [(dp, tp) for dp in "01" for tp in "01"]
    page = "\n".join(
        f'sglang:num_running_reqs{{model_name="m",dp_rank="{dp}",tp_rank="{tp}",pp_rank="0"}} 40\n'
        f'sglang:token_usage{{model_name="m",dp_rank="{dp}",tp_rank="{tp}",pp_rank="0"}} 0.97'
        for dp, tp in rows
    )
    result = EngineValues(SGLANG).take(by_engine(read_samples(page.encode(), SGLANG.names).found, SGLANG.only), 0.0)
    assert dict(result) == {("m", dp): {"running": 40.0, "kv_usage_pct": 97.0} for dp in "01"}


async def test_several_models_are_told_by_name() -> None:
    page = "\n".join(f'vllm:num_requests_running{{engine="0",model_name="{model}"}} 1' for model in ("a", "b"))
    async with endpoint() as server:
        result = await polled("vllm", server, page)
    assert [reading.name.partition("/")[2] for reading in result] == ["a/0", "b/0"]


async def test_hostile_labels_stay_words() -> None:
    page = 'vllm:num_requests_running{model_name="[red]\\u001b[31m x=1\\nname=",engine="0 name=evil util_pct=99"} 5\n'
    async with endpoint() as server:
        (reading,) = await polled("vllm", server, page)
    line = format_reading(reading, "here", "2026-03-02 08:15:07.118").decode()
    assert line.count("\n") == 1
    result = parse_reading(line)
    assert result is not None
    assert result[1].values == {"running": 5.0}


async def test_a_page_of_endless_engines_is_cut() -> None:
    page = "\n".join(f'vllm:num_requests_running{{engine="{n}"}} 1' for n in range(MOST_ENGINES + 7))
    async with endpoint() as server:
        result = await polled("vllm", server, page)
    assert len(result) == MOST_ENGINES + 1
    assert result[-1].values == {"left_out": 7.0}


async def test_a_large_page_and_one_that_is_packed() -> None:
    page = "".join(f'other{{n="{n}"}} 1\n' for n in range(40_000)) + vllm_page()
    assert len(page) > 700_000
    async with endpoint() as server:
        assert (await polled("vllm", server, page))[0].values["running"] == 12.0
        server.pages["/metrics"] = ok(gzip.compress(page.encode(), mtime=0), "Content-Encoding: gzip")
        assert (await pollers("vllm", server.url).poll())[0].values["running"] == 12.0


BAD = [
    (b"HTTP/1.1 404 Not Found\r\n\r\n", "answered 404: wrong path? metrics are usually at /metrics"),
    (b"HTTP/1.1 401 Unauthorized\r\n\r\n", "answered 401: it requires a login, which is not supported"),
    (b"HTTP/1.1 503 Busy\r\n\r\n", "answered 503: see its log"),
    (ok(b"<!DOCTYPE html><html><body>hello"), "returned a web page instead of metrics"),
    (ok(gzip.compress(b"up 1\n" * 100, mtime=0)[:20]), "returned corrupt gzip data"),
    (ok(gzip.compress(b"\0" * (65 << 20), 1, mtime=0)), "more than 64 MiB"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\nvllm:num_requests_running 1\n", "its reply was cut off"),
    (ok(b"up 1\n"), "no vLLM metrics on this page; use prometheus=URL for other servers"),
    (ok(b""), "no vLLM metrics on this page"),
    (ok(b'vllm:num_requests_running{engine="0"} NaN\n'), "its vLLM metrics are not numeric"),
    (b"SSH-2.0-OpenSSH_9.2\r\n", "no HTTP"),
]


@pytest.mark.parametrize(("answer", "why"), BAD)
async def test_what_is_no_page_gets_one_line(answer: bytes, why: str) -> None:
    async with endpoint() as server:
        server.pages["/metrics"] = answer
        with pytest.raises(PollError) as caught:
            await pollers("vllm", server.url).poll()
    message = str(caught.value)
    assert message.startswith(f"vllm {server.url}: {why}")
    assert "\n" not in message


async def test_nobody_listens() -> None:
    async with endpoint() as server:
        pass
    with pytest.raises(PollError, match="connection refused"):
        await pollers("vllm", server.url).poll()


async def test_what_is_not_a_number_is_left_out_and_all_else_told() -> None:
    page = vllm_page().replace("0.625", "NaN") + '\nvllm:num_preemptions_total{engine="0"} -4'
    async with endpoint() as server:
        server.serve(page)
        poller = pollers("vllm", server.url)
        for _ in range(2):
            result = await poller.poll()
    assert [reading.values for reading in result if reading.words["model"]] == [{"running": 12.0, "waiting": 3.0}]


async def test_trl_without_metrics_says_that_it_is_well() -> None:
    async with endpoint() as server:
        server.pages["/health/"] = ok(b'{"status":"ok"}')
        poller = pollers("trl", server.url)
        for _ in range(2):
            (reading,) = await poller.poll()
            assert (set(reading.values), reading.words["state"]) == ({"health_ms"}, "ok")
        assert server.requested == ["/metrics", "/health/", "/health/"], "metrics are not asked for every time"
        del server.pages["/health/"]
        with pytest.raises(PollError, match="/health/ answered 404"):
            await poller.poll()


async def test_trl_with_vllm_tells_engines() -> None:
    async with endpoint() as server:
        (reading,) = await polled("trl", server, vllm_page())
    assert (reading.words["kind"], reading.values["running"]) == ("trl", 12.0)


@pytest.mark.parametrize(
    ("kind", "argument"),
    [
        ("vllm", ""),
        ("vllm", "gpu-1:8000"),
        ("sglang", "http://me:secret@gpu-1/"),
        ("prometheus", "http://gpu-1:9100#a b"),
        ("prometheus", "http://gpu-1:9100#" + ",".join("x" * 300)),
        ("ray", "gpu-1"),
        ("ray", "ray://gpu-1:10001"),
        ("ray", "#peaknet_q1"),
        ("ray", "gpu-1:8265#space/"),
    ],
)
def test_a_wrong_argument_gets_one_line(kind: str, argument: str) -> None:
    with pytest.raises(UsageError) as caught:
        make_pollers(LocalMachine(), PollRequest(kind, argument))
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "requests", "shown"),
    [
        ("http://gpu-1:8000", "/metrics", "vllm http://gpu-1:8000"),
        ("http://gpu-1:8000/", "/metrics", "vllm http://gpu-1:8000"),
        ("http://gpu-1:8000/metrics", "/metrics", "vllm http://gpu-1:8000"),
        ("http://gpu-1/a/metrics", "/a/metrics", "vllm http://gpu-1:80/a"),
    ],
)
def test_metrics_are_the_path_where_none_is_named(text: str, requests: str, shown: str) -> None:
    page = Page.parse("vllm", text)
    assert (page.url.path, page.shown) == (requests, shown)


def test_names_of_all_versions_are_looked_for_in_their_order() -> None:
    (result,) = [result for result in VLLM.mappings if result.value == "itl"]
    plain = ["inter_token_latency_seconds", "time_per_output_token_seconds"]
    assert result.names == (*[f"vllm:{name}" for name in plain], *[f"ray_vllm_{name}" for name in plain])
    assert "ray_vllm_inter_token_latency_seconds_bucket" in VLLM.names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('kind = "mean"', "value[0].kind: expected one of sum, max, per_s, grew, quantiles"),
        ('kind = "sum"\nunit = "s"', "value[0].unit: unknown key"),
        ('kind = "sum"\nlabels = { x = 1 }', "value[0].labels.x: expected a string"),
    ],
)
def test_a_mistake_in_a_mapping_is_named(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialects, "_HERE", tmp_path)
    (tmp_path / "odd.toml").write_text(
        f'schema = 1\nkind = "odd"\ntitle = "Odd"\nprefixes = [""]\n[[value]]\nname = "x"\nmetrics = "y"\n{text}\n'
    )
    with pytest.raises(DataFileError) as caught:
        load_mapping("odd")
    assert message in str(caught.value)
