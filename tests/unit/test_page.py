"""The snapshot page: what it says of a run at one instant."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pictures
import pytest
import snapshots

from perfmon.diagnosis.result import Diagnosis, TimelineRow
from perfmon.reports.snapshot_page import render_page
from perfmon.textgraphics.charts import Leg
from perfmon.viewmodel import AlertState, Freshness, MonitorState, RunState

MADE = datetime(2026, 8, 21, 9, 10, tzinfo=UTC)
SECRET = "hf_abcdefghijklmnopqrstuvwxyz"  # noqa: S105


def page(snapshot: Diagnosis | None = None, picture: MonitorState | None = None, redact: bool = False) -> str:
    """The page of a snapshot, the front-end queue's without one."""
    return render_page(snapshot or snapshots.snapshot(), picture, MADE, redact=redact)


def test_the_three_answers_come_first() -> None:
    out = page(picture=pictures.picture(pictures.alert()))
    assert out.startswith("# ✗ CRIT Front-end queue saturation\n")
    assert "3m 06s of 10m 01s lost (31 %) · 2 of 3 conditions · for 9m 21s · 14 occurrences" in out
    assert "| ● met | queue_ms above 1000 in 14 of 15 updates |" in out
    assert "- ruled out: slow-weight-load (*not found*)" in out
    assert "- **next:** Use a dedicated admin client" in out
    assert "| frontend-queue | 3m 06s | 31 % |" in out
    assert "frontend-queue             31 % ██████████████████▋\n" in out
    assert "made 2026-08-21 09:10:00 +0000" in out


def test_a_rival_that_was_found_is_said_to_be() -> None:
    rival = snapshots.finding(signature="slow-weight-load", state="pending")
    assert "slow-weight-load (*pending*)" in page(snapshots.snapshot(findings=(snapshots.finding(), rival)))


def test_metrics_have_limits_and_a_trend() -> None:
    row = next(line for line in page().splitlines() if line.startswith("| queue_ms"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[1:4] == ["&lt; 100 ms", "100 ms – 1.0 s", "&gt; 1.0 s"]
    assert cells[4:9] == ["13.3 s", "12.6 s", "13.2 s", "13.3 s", "93 %"]
    assert cells[9].startswith("`▁█ ██")


def test_findings_come_with_their_lines_and_alerts_with_their_past() -> None:
    inhibited = pictures.alert(2, AlertState.INHIBITED, inhibited_by="stall", flapping=True)
    out = page(picture=pictures.picture(pictures.alert(), inhibited))
    assert "orchestrator.log:812  12:00:01    INFO [weights][ab01] client.done" in out
    assert "| 1 | firing | ✗ CRIT | frontend-queue | 9m 21s | 14 | 3m 06s | ` █ ██" in out
    assert "| 2 | inhibited by stall, flapping |" in out


def test_what_was_over_meanwhile_has_lasted_since_it_began_anew() -> None:
    began = pictures.START + 40.0
    once = page(picture=pictures.picture(pictures.alert()))
    again = page(picture=pictures.picture(pictures.alert(since=began + 540.0)))
    assert next(line for line in once.splitlines() if "14 occurrences" in line).count("for 9m") == 1
    assert "for 20" in next(line for line in again.splitlines() if "14 occurrences" in line)


def test_updates_are_drawn_from_the_board_and_from_the_timeline() -> None:
    growing = pictures.bar(14, 3.3, open=True, legs=(Leg("queue", pictures.START + 560.0, pictures.START + 564.5),))
    live = page(picture=pictures.picture(board=pictures.board(growing)))
    assert "\nab14           9m 20s  ○░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░▸ " in live
    result = page()
    assert "\nab14           9m 20s  ○░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░██●   14.5 s  13.3 s   1.2 s\n" in result


def test_an_update_among_the_slowest_is_drawn_as_it_is_among_the_last() -> None:
    at, legs = pictures.START + 560.0, (Leg("unknown", 0.0, 13.3), Leg("rpc", 13.3, 14.5))
    moved = tuple(replace(leg, start=leg.start + at, end=leg.end + at) for leg in legs)
    out = page(picture=pictures.picture(board=pictures.board(pictures.bar(14, 13.3, legs=moved))))
    drawn = [line for line in out.splitlines() if line.startswith("ab14 ")]
    assert len(drawn) == 2
    assert all("○▒" in line and "░" not in line for line in drawn)


def test_what_no_line_tells_is_drawn_as_unknown() -> None:
    row = TimelineRow(10.0, 20.0, "weight-update", "k", {"rpc_ms": 5000.0})
    out = page(snapshots.snapshot(timeline=(row,), slowest=()))
    assert "○▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒███████████████████●   10.0 s       –   5.0 s" in out


def test_no_section_is_empty() -> None:
    out = page(snapshots.empty())
    assert [line for line in out.splitlines() if line.startswith("#")] == [
        "# ? nothing observed",
        "## Verdict",
        "## Findings",
    ]
    assert page(snapshots.healthy()).startswith("# ✓ no bottleneck found\n")


def test_a_verdict_that_is_not_about_the_present_says_so() -> None:
    loading = pictures.picture(state=RunState.LOADING, progress=0.41)
    assert "> The existing log history was still being read (41 %)." in page(picture=loading)
    assert "> The newest line was 14.0 s old: the verdict may be outdated." in page(
        picture=pictures.picture(stale_s=14.0)
    )


def test_sources_say_how_fresh_they_are() -> None:
    stale = pictures.picture(sources=(pictures.source(freshness=Freshness.STALE, last=pictures.START + 586.7),))
    assert (
        "| orchestrator.log | trace+prime-rl | stale | 14.0 s ago | 50.8 KiB | 1,000 | 120 | 2 | \\+0.002 s |"
        in page(picture=stale)
    )
    assert "| read | 0 ms before the end |" in page()


def test_secrets_are_masked_everywhere() -> None:
    picture = pictures.picture(pictures.alert(finding=snapshots.finding(signature=SECRET)))
    assert SECRET not in page(snapshots.hostile(f"token={SECRET} {SECRET}"), picture)


@pytest.mark.parametrize("picture", [None, pictures.picture(pictures.alert())])
def test_a_redacted_page_names_nobody(picture: MonitorState | None) -> None:
    text = "jdoe@a100-0.acme.com wrote /home/jdoe/runs/x.pt to 10.0.0.5, host=a100-0; a100-0 and jdoe again"
    base = snapshots.hostile(text)
    spec = "/scratch/jdoe/run/orchestrator.log"
    sources = (replace(base.run.sources[0], spec=spec, notes=(f"{spec}: cut", text)),)
    out = page(replace(base, run=replace(base.run, sources=sources)), picture, redact=True)
    for name in ("jdoe", "a100-0", "acme", "10.0.0.5", "/home", "scratch", "orchestrator.log", "x.pt"):
        assert name not in out
    assert "| path-1 | trace+prime-rl |" in out
    assert "- path-1: cut" in out
