"""Two jobs with NCCL Inspector logs side by side: text, Markdown and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perfmon._version import __version__
from perfmon.core import counted, format_share, plain
from perfmon.nccl import JobAnalysis, NcclChange, NcclComparison

from .json_report import fields_of, json_object
from .layout import inline, listing, markdown_table, one_line, table, wrap

_SHOWN = 24
_HEAD = ("", "before", "after", "95 % interval", "n", "verdict")
_TITLES = {
    "transfer": "Transfer time in us",
    "rank": "Wait that a rank causes by itself, share of the kernel time",
    "link": "Transfer time relative to its peers",
}
_METHOD = (
    "Intervals: 95 %, of the difference of the means, from a block bootstrap over operations or tenths of the jobs. A"
    " transfer time or link counts from 5 % on, a wait from 2 % of the kernel time on, if the interval excludes 0;"
    " unsure: it may be chance; too few: not judged. Ranks are those of the job."
)
_ORDER = {"slower": 0, "faster": 1, "unsure": 2, "same": 3, "too few": 4}


def _rows(changes: Sequence[NcclChange], kind: str) -> list[tuple[str, ...]]:
    mine = sorted((change for change in changes if change.kind == kind), key=lambda change: _ORDER[change.verdict])
    shown = [change for change in mine if kind == "transfer" or change.verdict in ("slower", "faster", "unsure")]

    def figure(value: float | None) -> str:
        if value is None:
            return ""
        return f"{value:,.0f}" if kind == "transfer" else format_share(value) if kind == "rank" else f"{value:.2f}"

    def signed(value: float) -> str:
        return f"{'−' if value < 0 else '+'}{figure(abs(value))}"

    return [
        (
            one_line(change.label, 48),
            figure(change.before),
            figure(change.after),
            " … ".join(map(signed, change.ci95)) if change.ci95 else "",
            f"{change.counts[0]} → {change.counts[1]}",
            change.verdict,
        )
        for change in shown[:_SHOWN]
    ]


def _run(name: str, job: JobAnalysis) -> str:
    return (
        f"{name}: {counted(job.records, 'record')} in {counted(job.files, 'file')} of {counted(job.hosts, 'host')}, "
        f"{job.coverage.complete_ops:,} of {job.coverage.ops:,} operations with records of all ranks"
    )


def nccl_comparison_text(found: NcclComparison) -> str:
    """For a terminal; ends with a newline."""
    parts = [
        [f"perfmon {__version__}", _run("before", found.before), _run("after", found.after)],
        wrap(one_line(found.sentence, 2000), "  ", f"{found.verdict.upper()}  "),
    ]
    for kind, title in _TITLES.items():
        if rows := _rows(found.changes, kind):
            parts.append([title, *(f"  {line}" for line in table([_HEAD, *rows], frozenset({0, 5})))])
    parts += [listing("Not in both", [plain(one, 100) for one in found.only[:_SHOWN]]), wrap(_METHOD)]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def nccl_comparison_markdown(found: NcclComparison) -> str:
    """A page to paste; ends with a newline."""
    lines = ["# Before and after", "", *(f"- {inline(_run(*one))}" for one in _sides(found))]
    lines += ["", f"## Verdict: {found.verdict}", "", f"**{inline(found.sentence)}**"]
    for kind, title in _TITLES.items():
        if rows := _rows(found.changes, kind):
            lines += ["", f"## {title}", "", *markdown_table(_HEAD, rows, frozenset({1, 2, 3, 4}))]
    if found.only:
        lines += ["", "## Not in both", "", *(f"- {inline(one)}" for one in found.only[:_SHOWN])]
    return "\n".join([*lines, "", inline(_METHOD)]) + "\n"


def _sides(found: NcclComparison) -> tuple[tuple[str, JobAnalysis], ...]:
    return (("before", found.before), ("after", found.after))


def nccl_comparison_document(found: NcclComparison) -> dict[str, Any]:
    """The `--json` document, schema 1."""
    return json_object(
        {
            "schema": 1,
            "kind": "nccl-comparison",
            **fields_of(found, "verdict", "sentence"),
            "runs": {
                name: {**fields_of(job, "records", "files", "hosts"), "coverage": job.coverage.share}
                for name, job in _sides(found)
            },
            "changes": [
                {"kind": change.kind, "name": change.label}
                | fields_of(change, "before", "after", "ci95", "counts", "verdict")
                for change in found.changes
            ],
            "only": found.only,
        }
    )
