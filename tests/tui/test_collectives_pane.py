"""The pane of collectives: bandwidths, who is waited for, slow links and missing ranks, at every size."""

from __future__ import annotations

import pytest
from hosts import SIZES, SKIN, Host, screen_text
from pictures import alert, picture
from snapshots import finding

from perfmon.tui.panes.lists import CollectivesPane
from perfmon.viewmodel import CollectiveNow, CollectivesState, LinkNow, MissingRanks, RankNow

STATE = CollectivesState(
    window_s=30.0,
    by=tuple(
        CollectiveNow("hca-only", f"All{at}", 64 << 20, 44.5, 900.0, 0.1, 9.0, 0.2, (40.0, 44.5)) for at in range(9)
    ),
    ranks=(
        RankNow("rank 3 on gpu-1 (pid 7)", "gpu-1", 0.6, 0.3, 0.99),
        RankNow("rank 5 on \x1b[31mgpu[bold] (pid 8)", "gpu", 0.3, 0.1, 0.1),
    ),
    links=(LinkNow("hca-only communicator 0x1f data", 2.5, 0.1, ("gpu-1",)),),
    missing=(MissingRanks("mixed communicator 0x2e world", (6, 7), 2, 16),),
    processes=14,
    hosts=2,
    lines=5000,
    lines_per_s=800.0,
    ops=100,
    complete_ops=98,
    dropped=7,
)


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_what_is_wrong_comes_first_and_fits(size: tuple[int, int]) -> None:
    pane = CollectivesPane(SKIN)
    async with Host(lambda: pane).run_test(size=size) as pilot:
        named = alert(finding=finding(signature="nccl-slow-rank", identity={"group": STATE.ranks[0].label}))
        pane.show(picture(collectives=STATE, alerts=(named,)))
        await pilot.pause()
        text = screen_text(pilot.app)
        assert all(len(line) == size[0] for line in text)
        assert "5 Collectives" in text[0]
        shown = "\n".join(text)
        order = [shown.index(part) for part in ("rank 3 on", "2 of 16 ranks", "2.50 times its peers")]
        assert order == sorted(order)
        assert "44.5" in shown
        assert "\x1b" not in shown
        if size[0] >= 80:
            assert "98% of operations complete" in text[0]


async def test_a_folder_that_is_not_there_is_named() -> None:
    pane = CollectivesPane(SKIN)
    async with Host(lambda: pane).run_test(size=(80, 6)) as pilot:
        pane.show(picture(collectives=CollectivesState(window_s=30.0, absent=("/data/\x1b[31mrun", "/b"))))
        await pilot.pause()
        shown = "\n".join(screen_text(pilot.app))
        assert "waiting for the folder /data/" in shown
        assert "(and 1 more): not there yet" in shown
        assert "\x1b" not in shown
