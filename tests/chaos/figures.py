"""The figures of a run: what they have to be, and the table of docs/reliability.md that is made of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from .run import Outcome

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
_BLOCK = re.compile(r"(<!-- figures -->\n).*?(<!-- /figures -->)", re.DOTALL)
EMPTIED, DELETED = "wiped", "deleted over SSH"
"""What is done to logs of which a promise excludes lines by name."""


class Figure(NamedTuple):
    """A row of the table."""

    name: str
    value: int | str
    required: str = ""
    """The value that it must have; "": any, it describes the run."""

    @property
    def right(self) -> bool:
        """It has the value that it must have."""
        return self.required in ("", str(self.value))


def figures_of(outcome: Outcome) -> list[Figure]:
    """All of a run."""
    done, trouble = outcome.done, outcome.trouble
    turns = sum(count for name, count in done.items() if name.startswith("way: "))
    return [
        Figure("numbered lines written", outcome.written),
        Figure("of them recorded", outcome.written - sum(outcome.lost.values()) - sum(outcome.excused.values())),
        Figure("lost", sum(outcome.lost.values()), "0"),
        Figure("recorded twice", sum(outcome.doubled.values()), "0"),
        Figure("logs of which the exporter counts more or fewer lines", len(outcome.miscounted), "0"),
        Figure("missed by the exporter, excluded by name: log emptied while it is written", outcome.missed[EMPTIED]),
        Figure("lost, excluded by name: log emptied while it is written", outcome.excused[EMPTIED]),
        Figure("lost, excluded by name: remote log deleted while the connection is down", outcome.excused[DELETED]),
        Figure("rotations, in 10 ways", turns),
        Figure("writers killed and restarted", done["kill_a_writer"]),
        Figure("connections cut", done["cut_the_connection"]),
        Figure("outages of the SSH server", done["stop_the_server"]),
        Figure("clock steps in logs", done["set_a_clock"]),
        Figure("lines at once, in floods", done["flood"] * outcome.burst),
        Figure("logs that appeared at once", outcome.many),
        Figure("hostile lines", sum(outcome.inputs.values()) - outcome.inputs["recordings"]),
        Figure("crafted and damaged recordings", outcome.inputs["recordings"]),
        Figure("commands run", outcome.commands),
        Figure("screens, pages and files searched", trouble.texts),
        Figure("of them with text of hostile lines", trouble.hostile),
        Figure("crashes", len(trouble.crashes), "0"),
        Figure("hangs", len(trouble.hangs), "0"),
        Figure("escape sequences and markup through", len(trouble.escapes), "0"),
        Figure("secrets through", len(trouble.secrets), "0"),
        Figure("shell words run", len(trouble.shell), "0"),
        *(Figure(f"most memory of `perfmon {name}`", f"{size} MB") for name, size in sorted(outcome.peak_mb.items())),
    ]


def wrong(outcome: Outcome) -> list[str]:
    """What is not as it must be, with the details."""
    trouble = outcome.trouble
    details = {
        "lost": +outcome.lost, "recorded twice": +outcome.doubled, "crashes": trouble.crashes, "hangs": trouble.hangs,
        "logs of which the exporter counts more or fewer lines": outcome.miscounted,
        "escape sequences and markup through": trouble.escapes, "secrets through": trouble.secrets,
        "shell words run": trouble.shell,
    }  # fmt: skip
    return [f"{one.name}: {one.value}: {details[one.name]}" for one in figures_of(outcome) if not one.right]


def table(outcome: Outcome) -> str:
    """The table of the page."""
    rows = [f"| {one.name} | {_shown(one.value)} | {one.required} |" for one in figures_of(outcome)]
    head = f"`python -m tests.chaos --seed {outcome.seed} --minutes {outcome.minutes:g}`:\n\n"
    return head + "\n".join(["| figure | value | required |", "| --- | ---: | ---: |", *rows])


def _shown(value: int | str) -> str:
    return f"{value:,}".replace(",", " ") if isinstance(value, int) else value


def write_page(outcome: Outcome) -> None:
    """Writes the table into the page, between its marks."""
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(_BLOCK.sub(lambda match: f"{match[1]}{table(outcome)}\n{match[2]}", text), encoding="utf-8")


def names_on_page() -> list[str]:
    """The names of the figures on the page."""
    block = _BLOCK.search(PAGE.read_text(encoding="utf-8"))
    assert block is not None
    return [row.split("|")[1].strip() for row in block[0].splitlines() if row.startswith("|")][2:]
