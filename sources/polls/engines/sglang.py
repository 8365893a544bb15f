"""SGLang's metrics (read in 0.5.23; it serves them with --enable-metrics)."""

from __future__ import annotations

from .dialects import Dialect, Sort, Told


def _named(*names: str) -> tuple[str, ...]:
    return tuple(f"sglang:{name}" for name in names)


SGLANG = Dialect(
    kind="sglang",
    title="SGLang",
    told=(
        Told("running", Sort.SUM, _named("num_running_reqs")),
        Told("waiting", Sort.SUM, _named("num_queue_reqs")),
        Told("paused", Sort.SUM, _named("num_paused_reqs")),
        Told("kv_usage_pct", Sort.MAX, _named("token_usage", "full_token_usage"), 100.0),
        Told("gen_tps", Sort.SUM, _named("gen_throughput")),
        Told("prompt_tps", Sort.PER_S, _named("prompt_tokens_total")),
        Told("preemptions", Sort.GREW, _named("num_retracted_requests_total")),
        Told("prefix_hit_pct", Sort.MAX, _named("cache_hit_rate"), 100.0),
        Told("ttft", Sort.QUANTILES, _named("time_to_first_token_seconds")),
        Told("e2e", Sort.QUANTILES, _named("e2e_request_latency_seconds")),
        Told("request_queue", Sort.QUANTILES, _named("queue_time_seconds")),
        Told("itl", Sort.QUANTILES, _named("inter_token_latency_seconds")),
    ),
    # Ranks that share an engine's work tell its requests once more each.
    only={"tp_rank": "0", "pp_rank": "0", "moe_ep_rank": "0"},
)
