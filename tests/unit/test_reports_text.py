"""The summary on stdout and the explanation of formats: order, width, hostile text."""

from __future__ import annotations

from dataclasses import replace

import pytest
import snapshots
from rich.cells import cell_len

from perfmon.reports import layout, text_summary

HOSTILE = (snapshots.HOSTILE, snapshots.HUGE, "日本語" * 3000, "\u0301" * 500, " ", "")


def test_the_verdict_comes_first_with_its_cost_and_confidence() -> None:
    head, verdict, *_ = text_summary.render(snapshots.snapshot()).split("\n\n")
    assert "running at the last line, no end logged" in head
    lines = verdict.splitlines()
    assert lines[0] == "CRITICAL  Front-end queue saturation"
    assert lines[1].startswith("  14 of 15 weight updates waited 12.4 s")
    assert lines[3] == "  3m 06s of 10m 01s lost (31 %) · 2 of 3 conditions"


def test_ledger_metrics_evidence_and_gaps_are_shown() -> None:
    out = text_summary.render(snapshots.snapshot())
    assert "  frontend-queue  3m 06s   31 %  ███" in out
    assert "critical 93 %" in out
    assert "orchestrator.log:812  12:00:01 INFO [weights][ab01]" in out
    assert "→ Use a dedicated admin client" in out
    assert "no trainer log: checkpoint writes were not observed" in out


def test_a_sentence_is_not_said_twice() -> None:
    assert text_summary.render(snapshots.snapshot()).count("14 of 15 weight updates") == 1


def test_no_bottleneck_and_nothing_observed() -> None:
    assert text_summary.render(snapshots.healthy()).split("\n\n")[1] == "No bottleneck found."
    assert "No bottleneck found." in text_summary.render(snapshots.empty())


@pytest.mark.parametrize("words", HOSTILE)
@pytest.mark.parametrize("render", [text_summary.render, text_summary.render_formats])
def test_every_line_fits_and_controls_are_gone(render: object, words: str) -> None:
    assert callable(render)
    out = render(snapshots.hostile(words))
    assert max(cell_len(line) for line in out.splitlines()) <= (80 if render is text_summary.render else 100)
    assert not any(ord(c) < 32 and c != "\n" for c in out)
    assert "\u202e" not in out


def test_many_findings_and_metrics_are_cut_with_a_word() -> None:
    many = snapshots.snapshot(
        findings=tuple(snapshots.finding(count=at) for at in range(40)),
        metrics={f"m{at}": snapshots.metric(f"m{at}", (1.0,), "") for at in range(100)},
    )
    out = text_summary.render(many)
    assert "… 28 more" in out
    assert "also: m30, m31" in out
    assert "… 46 more" in out


def test_long_units_stand_in_the_name_and_short_ones_in_the_cells() -> None:
    metrics = {"gen_tps": snapshots.metric("gen_tps", (1743.2,), "tokens/s"), "w": snapshots.metric("w", (12.0,), "ms")}
    out = text_summary.render(snapshots.snapshot(metrics=metrics))
    assert "gen_tps [tokens/s]      1  1,743" in out
    assert "w                       1  12 ms" in out


def test_the_folder_of_all_logs_is_said_once() -> None:
    base = snapshots.snapshot()
    logs = tuple(replace(base.run.sources[0], spec=f"/runs/a/{name}") for name in ("orchestrator.log", "b/trainer.log"))
    proof = (replace(base.findings[0].evidence[0], source="/runs/a/orchestrator.log"),)
    out = text_summary.render(
        replace(base, run=replace(base.run, sources=logs), findings=(snapshots.finding(evidence=proof),))
    )
    assert "  in /runs/a/\n" in out
    assert "      orchestrator.log:812  " in out


def test_formats_says_what_was_chosen() -> None:
    out = text_summary.render_formats(snapshots.snapshot())
    assert "format  trace+prime-rl" in out
    assert "120 recognised, 88 % of lines not recognised" in out
    assert "75  trace/weights" in out


def test_wrapping_breaks_between_words_and_inside_long_ones() -> None:
    lines = layout.wrap("a " * 60 + "b" * 200, "  ", "* ")
    assert lines[0].startswith("* a a")
    assert all(cell_len(line) <= layout.WIDTH for line in lines)
    assert "".join(lines).count("b") == 200


def test_a_long_path_keeps_its_end() -> None:
    assert layout.fit_end("/very" * 30 + "/run/orchestrator.log", 20).endswith("orchestrator.log")


def test_logs_that_end_long_ago_are_not_running() -> None:
    made = snapshots.snapshot()
    quiet = replace(made, verdict=None, run=replace(made.run, quiet_s=125.0))
    assert "no end logged, no output for 2m 05s · " in " ".join(text_summary.render(quiet).split())
