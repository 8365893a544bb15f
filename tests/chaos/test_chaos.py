"""Logs under load, faults and hostile input: nothing is lost, doubled, crashed or let through that is promised not to.

The figures of a longer run are in docs/reliability.md.
"""

from __future__ import annotations

import shutil

import pytest
from sshd import AVAILABLE

from .figures import figures_of, names_on_page, wrong
from .run import Outcome, played

_SEED, _MINUTES = 7, 2.0


def test_the_page_has_all_figures() -> None:
    names = [one.name for one in figures_of(Outcome(_SEED, _MINUTES))]
    assert [name for name in names_on_page() if "memory" not in name] == names


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.skipif(not AVAILABLE or shutil.which("tmux") is None, reason="needs sshd and tmux")
def test_a_chaos_run() -> None:
    outcome = played(_SEED, _MINUTES)
    print(*figures_of(outcome), sep="\n")
    assert wrong(outcome) == []
    assert outcome.trouble.hostile > 10  # there was something to be found
