"""Reads signatures from TOML; a mistake is told with file, key and what was expected."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from perfmon.datafile import Table, read_toml
from perfmon.errors import DataFileError
from perfmon.model import Severity
from perfmon.text import plain

from .bands import Bands, load_bands
from .conditions import read_condition
from .schema import KINDS, AdviceFor, Cause, Example, Lost, Signature, Subject
from .sentences import unclosed

BUILTIN = Path(__file__).parent / "signatures"
ONLY_LOG = "example.log"
_FILE_NAME = re.compile(r"\w[\w.-]{0,80}", re.ASCII)
_SUBJECTS = ("span", "metric", "mark", "quiet", "absence", "failure", "open", "limit")
_KEYS = (
    "schema", "id", "title", "kind", "rank", "severity", "meaning", "sentence", "advice", "advice_by_cause",
    "confused_with", "on", "condition", "identity", "lost", "cause", "for_count", "critical_count", "for_s",
    "keep_firing_for_s", "brief_s", "skip_first", "unseen", "example", "requires", "unless", "every_s", "advice_for",
)  # fmt: skip


def _subjects(table: Table) -> tuple[Subject, ...]:
    subjects = []
    for entry in table.tables("on"):
        entry.only((*_SUBJECTS, "also", "sentence", "critical_count", "severity"))
        kinds = [kind for kind in _SUBJECTS if kind in entry.data]
        if len(kinds) != 1:
            raise DataFileError(entry.file, entry.key, f"expected exactly one of {', '.join(_SUBJECTS)}")
        count = _count(entry, "critical_count", (1, 1)) if "critical_count" in entry.data else None
        name, sentence = entry.text(kinds[0]), _sentence(entry, "")
        kind: Any = kinds[0]
        severity = entry.text("severity", "")
        if severity and severity not in tuple(Severity):
            raise entry.wrong("severity", f"expected one of {', '.join(Severity)}")
        least = Severity(severity) if severity else None
        subjects.append(Subject(kind, name, entry.flag("also"), sentence, count, least))
    if not subjects:
        raise table.wrong("on", "missing, expected a subject ([[on]])")
    return tuple(subjects)


def _sentence(table: Table, default: str | None = None) -> str:
    """A template whose braces and brackets are in pairs: what is not closed would be shown as it stands."""
    template = table.text("sentence", default)
    odd = unclosed(template)
    if odd:
        expected = "expected {SLOT}, or [...] around optional parts"
        raise table.wrong("sentence", f"'{plain(odd)}' is an unmatched bracket, {expected}")
    return template


def _lost(table: Table) -> Lost | None:
    if "lost" not in table.data:
        return None
    entry = table.table("lost", table.data["lost"])
    known = ("leg", "beyond", "baseline", "spans", "share", "rest", "fraction", "back", "until", "short")
    entry.only((*known, "critical_share"))
    leg = entry.text("leg", "")
    if leg not in ("", "queue", "rpc", "whole", "between"):
        raise entry.wrong("leg", "expected queue, rpc, whole or between")
    return Lost(
        leg=leg,  # type: ignore[arg-type]  # checked above
        beyond=entry.text("beyond", ""),
        baseline=entry.flag("baseline"),
        spans=entry.text("spans", ""),
        share=entry.texts("share"),
        rest=entry.text("rest", ""),
        fraction=entry.texts("fraction"),
        back=max(1, int(entry.number("back", 1))),
        until=entry.text("until", ""),
        short=entry.flag("short"),
        critical_share=entry.number("critical_share", 1.0),
    )


def _advice_by_cause(table: Table) -> dict[str, tuple[str, ...]]:
    if "advice_by_cause" not in table.data:
        return {}
    entry = table.table("advice_by_cause", table.data["advice_by_cause"])
    return {cause: entry.texts(cause, required=True) for cause in entry.data}


def _causes(table: Table) -> tuple[Cause, ...]:
    causes = []
    for entry in table.tables("cause"):
        entry.only(("signature", "match"))
        match = entry.text("match", "time")
        if match not in ("key", "time", "lost"):
            raise entry.wrong("match", "expected key, time or lost")
        causes.append(Cause(entry.text("signature"), match))  # type: ignore[arg-type]  # checked above
    return tuple(causes)


def _advice_for(table: Table) -> tuple[AdviceFor, ...]:
    packs = []
    for entry in table.tables("advice_for"):
        entry.only(("pack", "advice"))
        packs.append(AdviceFor(entry.word("pack"), entry.texts("advice", required=True)))
    return tuple(packs)


def _count(table: Table, name: str, default: tuple[int, int]) -> tuple[int, int]:
    value = table.data.get(name, list(default))
    if not isinstance(value, list) or len(value) != 2 or not all(isinstance(n, int) and n > 0 for n in value):
        raise table.wrong(name, "expected [m, n]: m of the last n")
    if value[0] > value[1]:
        raise table.wrong(name, "expected m not above n")
    return (value[0], value[1])


def _examples(table: Table) -> tuple[Example, ...]:
    examples = []
    for entry in table.tables("example"):
        entry.only(("name", "log", "logs", "fires", "verdict"))
        logs = _logs(entry)
        examples.append(Example(entry.text("name"), logs, entry.flag("fires"), entry.flag("verdict")))
    return tuple(examples)


def _logs(entry: Table) -> dict[str, str]:
    if ("log" in entry.data) == ("logs" in entry.data):
        raise entry.wrong("log", "expected either log (a text) or logs (file names with their texts)")
    if "log" in entry.data:
        return {ONLY_LOG: entry.text("log")}
    logs = entry.table("logs", entry.data["logs"])
    for name in logs.data:
        if not _FILE_NAME.fullmatch(name):
            raise logs.wrong(name, "expected a plain file name")
    return {name: logs.text(name) for name in logs.data}


def load_signature(path: Path) -> Signature:
    """The signature in one TOML file."""
    table = read_toml(path)
    table.only(_KEYS)
    if table.data.get("schema") != 1:
        raise table.wrong("schema", "expected 1")
    kind = table.text("kind")
    if kind not in KINDS:
        raise table.wrong("kind", f"expected one of {', '.join(KINDS)}")
    severity = table.text("severity", "critical")
    if severity not in tuple(Severity):
        raise table.wrong("severity", f"expected one of {', '.join(Severity)}")
    conditions = tuple(read_condition(entry) for entry in table.tables("condition"))
    if not conditions:
        raise table.wrong("condition", "missing, expected at least one [[condition]]")
    unseen = tuple((entry.text("missing"), entry.text("say")) for entry in table.tables("unseen"))
    return Signature(
        id=table.word("id"),
        title=table.line("title"),
        kind=kind,
        rank=int(table.required_number("rank")),
        severity=Severity(severity),
        meaning=table.text("meaning"),
        sentence=_sentence(table),
        advice=table.texts("advice", required=True),
        advice_by_cause=_advice_by_cause(table),
        confused_with=table.texts("confused_with"),
        subjects=_subjects(table),
        conditions=conditions,
        identity=table.texts("identity"),
        lost=_lost(table),
        causes=_causes(table),
        for_count=_count(table, "for_count", (2, 3)),
        critical_count=_count(table, "critical_count", (1, 1)),
        for_s=table.amount("for_s", 0.0),
        keep_firing_for_s=table.amount("keep_firing_for_s", 600.0),
        brief_s=table.amount("brief_s", 0.0),
        skip_first=int(table.amount("skip_first", 0)),
        unseen=unseen,
        examples=_examples(table),
        file=str(path),
        requires=table.texts("requires"),
        unless=table.texts("unless"),
        advice_for=_advice_for(table),
        every_s=table.amount("every_s", 0.0),
    )


def load_signatures(folders: Iterable[Path] = ()) -> tuple[Signature, ...]:
    """The built-in signatures and those of user folders by rank; a later file with the same id replaces an earlier."""
    signatures = {signature.id: signature for signature in _builtin()}
    for folder in folders:
        for path in sorted(folder.glob("*.toml")):
            signature = load_signature(path)
            signatures[signature.id] = signature
    return tuple(sorted(signatures.values(), key=lambda signature: (signature.rank, signature.id)))


@cache
def _builtin() -> tuple[Signature, ...]:
    return tuple(load_signature(path) for path in sorted(BUILTIN.glob("*.toml")))


__all__ = ["Bands", "load_bands", "load_signature", "load_signatures"]
