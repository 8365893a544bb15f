"""A hang as text, Markdown and JSON."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from perfmon._version import __version__
from perfmon.core import plain

from .dossier import Dossier
from .graph import WaitGraph
from .model import Evidence, Operation, named_ranks
from .ras import RasReport
from .verdict import Answer, Cause, Verdict
from .words import cause_words, extent, next_steps, operation_words, rank_words, summary, waiting_rows

_WIDTH = 80
_SHOWN_ROWS = 12
_SHOWN_CAUSES = 12
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~])")
_TITLES = {
    Answer.NAMED: "BEHIND",
    Answer.CANDIDATES: "UNCLEAR",
    Answer.ARRIVED: "ALL ARRIVED",
    Answer.UNKNOWN: "CANNOT TELL",
    Answer.NO_HANG: "NO HANG",
}


@dataclass(slots=True)
class HangReport:
    """All that a report shows."""

    target: str
    verdict: Verdict
    evidence: Evidence = field(default_factory=Evidence)
    graph: WaitGraph | None = None
    ras: RasReport | None = None
    places: Mapping[int, str] = field(default_factory=dict)
    """Of RAS: where the process of a rank is."""
    dossiers: Sequence[Dossier] = ()

    @property
    def headline(self) -> str:
        """The answer in one sentence."""
        return _ras_summary(self) if self.ras is not None else summary(self.verdict, self.evidence)


def text(report: HangReport) -> str:
    """For a terminal; ends with a newline."""
    lines = [f"perfmon {__version__}  {plain(report.target, 200)}: {_extent(report)}", ""]
    lines += _wrap(report.headline, f"{_TITLES[report.verdict.answer]}  ", "  ")
    for title, items in _sections(report):
        lines += ["", title]
        for item in items:
            lines += _wrap(item, "  ", "    ")
    for one in report.dossiers:
        lines += ["", *_wrap(_dossier_title(one), "", "  "), *(f"  {line}" for line in (*one.lines, *one.stack))]
    return "\n".join(lines) + "\n"


def markdown(report: HangReport) -> str:
    """A page to paste; ends with a newline."""
    lines = ["# Hang", "", _safe(f"{report.target}: {_extent(report)}"), ""]
    lines += [f"## {_TITLES[report.verdict.answer].capitalize()}", "", f"**{_safe(report.headline)}**"]
    for title, items in _sections(report):
        lines += ["", f"## {title}", "", *(f"- {_safe(item)}" for item in items)]
    for one in report.dossiers:
        lines += ["", f"## {_safe(_dossier_title(one))}", ""]
        if one.lines or one.stack:
            lines += ["````", *(line.replace("````", "''''") for line in (*one.lines, *one.stack)), "````"]
    return "\n".join([*lines, "", f"Written by perfmon {_safe(__version__)}."]) + "\n"


def document(report: HangReport) -> dict[str, Any]:
    """The document of `--json`."""
    verdict, evidence = report.verdict, report.evidence
    found: dict[str, Any] = {
        "schema": 1,
        "perfmon": __version__,
        "hang": {
            "target": report.target,
            "answer": verdict.answer.value,
            "ranks": list(verdict.ranks),
            "candidates": list(verdict.candidates),
            "sentence": report.headline,
            "confidence": verdict.confidence,
            "reasons": verdict.reasons,
            "causes": [_cause(cause, report) for cause in verdict.causes],
            "next_steps": _steps(report),
            "world": len(evidence.world) if report.ras is None else len(report.places),
            "dumps": sum(state.complete for state in evidence.states.values()),
            "missing": list(evidence.missing),
            "notes": evidence.notes,
        },
    }
    hang = found["hang"]
    if report.graph is not None:
        hang["waiting"] = [
            {**_operation(operation, evidence), "ranks": ranks, "waits_for": behind}
            for operation, ranks, behind in waiting_rows(report.graph)
        ]
    if report.ras is not None:
        hang["nccl_version"] = report.ras.version
        hang["places"] = {str(rank): place for rank, place in report.places.items() if rank in _interesting(verdict)}
    if report.dossiers:
        hang["dossiers"] = [
            {"rank": one.rank, "log": one.log, "lines": list(one.lines), "pid": one.pid or None,
             "stack": list(one.stack), "note": one.note}
            for one in report.dossiers
        ]  # fmt: skip
    return found


def _cause(cause: Cause, report: HangReport) -> dict[str, Any]:
    return {
        "kind": cause.kind.value,
        "ranks": list(cause.ranks),
        "among": list(cause.among),
        "waiting": cause.waiting,
        "sentence": _cause_text(cause, report),
        "operation": _operation(cause.operation, report.evidence) if cause.operation is not None else None,
    }


def _operation(operation: Operation | None, evidence: Evidence) -> dict[str, Any]:
    if operation is None:
        return {"operation": None}
    return {
        "operation": operation.name,
        "group": operation.group.name,
        "group_description": evidence.descriptions.get(operation.group, ""),
        "sequence_number": operation.seq,
        "elements_in": operation.numel_in,
        "elements_out": operation.numel_out,
        "call_site": operation.site,
    }


def _sections(report: HangReport) -> list[tuple[str, list[str]]]:
    verdict = report.verdict
    sections: list[tuple[str, list[str]]] = []
    causes = [_cause_text(cause, report) for cause in verdict.causes]
    held = [f"; {cause.waiting} ranks wait for it" if cause.waiting > 1 else "" for cause in verdict.causes]
    items = [f"{text}{tail}" for text, tail in zip(causes, held, strict=True)]
    sections.append(("Ends of the chains of waiting", _first(items, _SHOWN_CAUSES)))
    if report.graph is not None:
        rows = [
            f"{operation_words(operation, report.evidence)}: {rank_words(ranks)}{_waits(behind)}{_site(operation)}"
            for operation, ranks, behind in waiting_rows(report.graph)
        ]
        sections.append(("Oldest outstanding operations", _first(rows, _SHOWN_ROWS)))
    if report.ras is not None and verdict.candidates:
        sections.append(("Candidates", [_process(rank, report) for rank in verdict.candidates]))
    elif verdict.ranks and verdict.candidates:
        sections.append(("Possibly behind as well", [rank_words(verdict.candidates)]))
    sections.append(("Limits", [*verdict.reasons, *report.evidence.notes]))
    sections.append(("Next steps", _steps(report)))
    return [(title, items) for title, items in sections if items]


def _steps(report: HangReport) -> list[str]:
    return next_steps(report.verdict)


def _cause_text(cause: Cause, report: HangReport) -> str:
    if report.ras is None:
        return cause_words(cause, report.evidence)
    return f"{_process(cause.ranks[0], report)}: {cause.detail}"


def _ras_summary(report: HangReport) -> str:
    verdict = report.verdict
    match verdict.answer:
        case Answer.NAMED:
            cause = next(cause for cause in verdict.causes if set(cause.ranks) & set(verdict.ranks))
            others = f" (of {len(verdict.ranks)}: {named_ranks(verdict.ranks)})" if len(verdict.ranks) > 1 else ""
            return f"{_cause_text(cause, report)}{others}; {verdict.confidence}"
        case Answer.CANDIDATES:
            return f"not decided; candidates: {rank_words(verdict.candidates)}"
        case _:
            return "cannot tell who is behind: the counters of all ranks are equal"


def _process(rank: int, report: HangReport) -> str:
    """`rank 5 (host node7, pid 412, GPU 1)`; of a process outside of the largest communicator its place alone."""
    place = report.places.get(rank, "")
    name = f"rank {rank}" if rank >= 0 else "a process"
    return f"{name} ({place})" if place else name


def _interesting(verdict: Verdict) -> set[int]:
    return {*verdict.ranks, *verdict.candidates, *(rank for cause in verdict.causes for rank in cause.ranks)}


def _extent(report: HangReport) -> str:
    if report.ras is None:
        return extent(report.evidence)
    version = f", NCCL {report.ras.version}" if report.ras.version else ""
    return f"{len(report.places)} processes in {len(report.ras.communicators)} communicators{version}"


def _waits(behind: Sequence[int]) -> str:
    return f" waiting for {rank_words(behind)}" if behind else ""


def _site(operation: Operation | None) -> str:
    return f", at {operation.site}" if operation is not None and operation.site else ""


def _dossier_title(one: Dossier) -> str:
    log = f", last lines of {one.log}" if one.lines else ""
    pid = f", pid {one.pid}" if one.pid else ""
    return f"Rank {one.rank}{pid}{log}{f' ({one.note})' if one.note else ''}"


def _first(items: Sequence[str], most: int) -> list[str]:
    left = len(items) - most
    return [*items[:most], f"and {left} more"] if left > 0 else list(items)


def _wrap(line: str, lead: str, indent: str) -> list[str]:
    safe = plain(line, 4000)
    return textwrap.wrap(safe, _WIDTH, initial_indent=lead, subsequent_indent=indent, break_on_hyphens=False) or [lead]


def _safe(line: str) -> str:
    return _SPECIAL.sub(r"\\\1", plain(line, 4000))
