"""vLLM's metrics: V1 (read in 0.33), V0 until 0.9, and as Ray Serve renames them."""

from __future__ import annotations

from .dialects import Dialect, Share, Sort, Told


def _named(*names: str) -> tuple[str, ...]:
    return (*[f"vllm:{name}" for name in names], *[f"ray_vllm_{name}" for name in names])


_ENDED = _named("request_success_total")

_ASLEEP = {"sleep_state": frozenset({"weights_offloaded", "discard_all"})}

VLLM = Dialect(
    kind="vllm",
    title="vLLM",
    told=(
        Told("running", Sort.SUM, _named("num_requests_running")),
        Told("waiting", Sort.SUM, _named("num_requests_waiting")),
        Told("swapped", Sort.SUM, _named("num_requests_swapped")),
        Told("paused", Sort.MAX, _named("engine_sleep_state"), labels=_ASLEEP),
        Told("kv_usage_pct", Sort.MAX, _named("kv_cache_usage_perc", "gpu_cache_usage_perc"), 100.0),
        Told("gen_tps", Sort.PER_S, _named("generation_tokens_total")),
        Told("prompt_tps", Sort.PER_S, _named("prompt_tokens_total")),
        Told("preemptions", Sort.GREW, _named("num_preemptions_total")),
        Told("ttft", Sort.QUANTILES, _named("time_to_first_token_seconds")),
        Told("e2e", Sort.QUANTILES, _named("e2e_request_latency_seconds")),
        Told("request_queue", Sort.QUANTILES, _named("request_queue_time_seconds")),
        Told("itl", Sort.QUANTILES, _named("inter_token_latency_seconds", "time_per_output_token_seconds")),
    ),
    shares=(
        Share("prefix_hit_pct", _named("prefix_cache_hits_total"), _named("prefix_cache_queries_total")),
        # Requests that ended because they were too long; of a handful the share would jump between 0 and 100.
        Share("cut_pct", _ENDED, _ENDED, {"finished_reason": "length"}, least=20.0),
    ),
)
