"""Signatures: their schema, and the loader that reads and checks them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from perfmon.core import DataFileError, Severity, Table, plain, read_toml, with_user_files

from .conditions import Condition, read_condition, read_fields
from .sentences import unclosed

Kind = Literal["failure", "bottleneck", "fault", "quality", "note"]
"""failure: the run ended of it, always the verdict; bottleneck: costs time; fault: something does not happen;
quality: spoils the result, not the speed; note: listed, never the verdict."""

KINDS: tuple[Kind, ...] = get_args(Kind)
SubjectKind = Literal["span", "metric", "mark", "quiet", "absence", "failure", "open", "limit", "finding"]


@dataclass(frozen=True, slots=True)
class Subject:
    """The items that a signature evaluates, one by one: spans of a kind, samples of a metric, gaps and others."""

    kind: SubjectKind
    name: str
    """Span kind, metric or mark; for quiet `all` (every log) or `one`; for absence the span kind that is missing; for a
    failure the causes of a death, joined by |; for open the kind of spans that have begun and not ended; for limit what
    is short: time; for finding the signatures whose occurrences are evaluated once more, joined by |: the signature is
    a hypothesis about their cause."""
    also: bool = False
    """Evaluated too when an earlier subject has data but gives no finding."""
    sentence: str = ""
    """Its own sentence; empty: the signature's."""
    critical_count: tuple[int, int] | None = None
    """Its own m of n."""
    severity: Severity | None = None
    """The most that its findings can be; None: that of the signature."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The seconds of an occurrence that are lost.

    `leg` queue or rpc of a weight update or `whole` of an occurrence, less the good limit of `beyond`, or `between` it
    and the sample before; or the `spans` of a kind during the finding; or the time between samples times `share` (a
    metric in %; of several the one that was looked at), times what `rest` (another) leaves of 100 %, or times
    `fraction[0] / sum(fraction)`; or the `seconds` before a sample that it measured. What lasts uses `leg` where a run
    has nothing of the others.
    """

    leg: str = ""
    beyond: str = ""
    baseline: bool = False
    """Beyond the median of the occurrences' uncontended peers instead of beyond a band."""
    spans: str = ""
    share: tuple[str, ...] = ()
    mean: str = ""
    """A metric that takes the place of `share` where it was measured together with it: of all steps, not of one."""
    rest: str = ""
    fraction: tuple[str, ...] = ()
    queue: tuple[str, ...] = ()
    """What waits and what is served: `queue[0] / sum(queue)` of the time ranks the finding among causes as if it were
    lost. It is not: the rest of the requests is served in the meantime."""
    seconds: tuple[str, ...] = ()
    run_up_s: float = 0.0
    """Of `share`, and of `short` by a condition that holds then: what samples measured in so many seconds before an
    occurrence is lost, too. The mean of a window is beyond its limit later than its first values."""
    back: int = 1
    """Of samples: the number of samples before it at which its time starts; as many as its conditions use."""
    until: str = ""
    """The kind of span up to whose end the time of its last sample lasts."""
    short: bool = False
    """The lost part of its time by a condition: beyond what was usual before, or what peers need."""
    who: str = ""
    """Whose time it is in a run that updates weights while it generates: others continue unless they wait for it."""
    critical_share: float = 1.0
    """So many % of the time are lost at least where the finding is critical, in a run of half an hour or more."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Another signature that, when it fires on the same key or at the same time, explains this one."""

    signature: str
    match: str = "time"
    """`key`, `time`, `lost` (the time that both cost) or `each` (the time of half of the occurrences)."""


@dataclass(frozen=True, slots=True)
class AdviceFor:
    """The advice where the lines are those of one format pack, in place of the general one."""

    pack: str
    advice: tuple[str, ...]
    commands: tuple[str, ...] = ()
    """Options of that system to copy, before the general commands."""


@dataclass(frozen=True, slots=True)
class Example:
    """A log that must, or must not, give the signature."""

    name: str
    logs: Mapping[str, str]
    """Text by file name; one that gives just `log` has it under the name `example.log`."""
    fires: bool
    verdict: bool
    """It must also be the verdict."""


@dataclass(frozen=True, slots=True)
class Signature:
    """A bottleneck that can be recognised."""

    id: str
    title: str
    kind: Kind
    rank: int
    """Precedence: of several causes for the same second the one with the smallest rank has it."""
    severity: Severity
    """The most that it can be."""
    meaning: str
    sentence: str
    """Template, see `perfmon.rules.sentences`."""
    advice: tuple[str, ...]
    advice_by_cause: Mapping[str, tuple[str, ...]]
    """Of a failure: what to do by its cause, instead of `advice`."""
    title_by_cause: Mapping[str, str]
    """Of a failure: its title by its cause, instead of `title`."""
    confused_with: tuple[str, ...]
    subjects: tuple[Subject, ...]
    """The first of these that the run has data for, and those with `also`."""
    conditions: tuple[Condition, ...]
    identity: tuple[str, ...]
    """Fields that distinguish findings of this signature."""
    lost: Lost | None
    causes: tuple[Cause, ...]
    for_count: tuple[int, int]
    """m of the last n occurrences, for occurrences in the warning band."""
    critical_count: tuple[int, int]
    """The same for the critical band: (1, 1) fires at once."""
    for_s: float
    """Seconds for which occurrences must continue before the finding fires."""
    keep_firing_for_s: float
    """Occurrences that are further apart belong to different episodes; so long after the last one it is resolved."""
    brief_s: float
    """Total duration in seconds up to which a finding is at most a warning; 0: no such limit."""
    skip_first: int
    """Items at the start of each log that are not judged: first fill, model load."""
    unseen: tuple[tuple[str, str], ...]
    """(what is missing: a span kind or metric or `server`, message)."""
    examples: tuple[Example, ...]
    file: str
    outranks: tuple[str, ...] = ()
    """Signatures of which none is the verdict while this one fires at the end, whatever they cost before."""
    unless: tuple[str, ...] = ()
    """Span kinds or metrics, none of which the run may ever have had: the signature does not apply to such runs."""
    advice_for: tuple[AdviceFor, ...] = ()
    """The first whose pack the finding's lines are of replaces `advice`."""
    commands: tuple[str, ...] = ()
    """Commands that show more, one line each; words in capitals are to be replaced (PID, HOST)."""
    every_s: float = 0.0
    """Samples of a stream that come more often are judged once in this time: what is polled every second."""
    decided_by: str = ""
    """The only thing that shows or refutes it as a hypothesis: a trace; "": what the run's logs and pollers report."""

    @property
    def explains(self) -> frozenset[str]:
        """Ids of the signatures of whose findings this one is a hypothesis."""
        return frozenset(
            name for subject in self.subjects if subject.kind == "finding" for name in subject.name.split("|")
        )


# --- Reads signatures from TOML; an error names file, key and what was expected ---

BUILTIN = Path(__file__).parent / "signatures"
ONLY_LOG = "example.log"
_FILE_NAME = re.compile(r"\w[\w.-]{0,80}", re.ASCII)
_SUBJECTS: tuple[SubjectKind, ...] = get_args(SubjectKind)
_KEYS = (
    "schema", "id", "title", "kind", "rank", "severity", "meaning", "sentence", "advice", "advice_by_cause",
    "confused_with", "on", "condition", "identity", "lost", "cause", "for_count", "critical_count", "for_s",
    "keep_firing_for_s", "brief_s", "skip_first", "unseen", "example", "unless", "every_s", "advice_for",
    "title_by_cause",
    "outranks", "decided_by", "commands",
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
        severity = _severity(entry) if "severity" in entry.data else None
        subjects.append(Subject(kinds[0], name, entry.flag("also"), sentence, count, severity))
    if not subjects:
        raise table.wrong("on", "missing, expected a subject ([[on]])")
    return tuple(subjects)


def _severity(table: Table) -> Severity:
    severity = table.text("severity", "critical")
    if severity not in tuple(Severity):
        raise table.wrong("severity", f"expected one of {', '.join(Severity)}")
    return Severity(severity)


def _sentence(table: Table, default: str | None = None) -> str:
    """A template whose braces and brackets are in pairs: what is not closed would be shown as it stands."""
    template = table.text("sentence", default)
    unmatched = unclosed(template)
    if unmatched:
        expected = "expected {SLOT}, or [...] around optional parts"
        raise table.wrong("sentence", f"'{plain(unmatched)}' is an unmatched bracket, {expected}")
    return template


def _lost(table: Table) -> Lost | None:
    if "lost" not in table.data:
        return None
    entry = table.table("lost", table.data["lost"])
    entry.only(field.name for field in fields(Lost))
    lost = read_fields(Lost, entry)
    if lost.leg not in ("", "queue", "rpc", "whole", "between"):
        raise entry.wrong("leg", "expected queue, rpc, whole or between")
    return replace(lost, back=max(1, lost.back))


def _by_cause(table: Table, name: str) -> Table:
    """A table by causes of failures; empty where there is none."""
    return table.table(name, table.data.get(name, {}))


def _causes(table: Table) -> tuple[Cause, ...]:
    causes = []
    for entry in table.tables("cause"):
        entry.only(("signature", "match"))
        causes.append(read_fields(Cause, entry))
        if causes[-1].match not in ("key", "time", "lost", "each"):
            raise entry.wrong("match", "expected key, time, lost or each")
    return tuple(causes)


def _advice_for(table: Table) -> tuple[AdviceFor, ...]:
    entries = table.tables("advice_for")
    for entry in entries:
        entry.only(("pack", "advice", "commands"))
    return tuple(
        AdviceFor(entry.word("pack"), entry.texts("advice", required=True), entry.texts("commands"))
        for entry in entries
    )


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
    conditions = tuple(read_condition(entry) for entry in table.tables("condition"))
    if not conditions:
        raise table.wrong("condition", "missing, expected at least one [[condition]]")
    advice, titles = _by_cause(table, "advice_by_cause"), _by_cause(table, "title_by_cause")
    unseen = tuple((entry.text("missing"), entry.text("say")) for entry in table.tables("unseen"))
    return Signature(
        id=table.word("id"),
        title=table.line("title"),
        kind=kind,
        rank=int(table.required_number("rank")),
        severity=_severity(table),
        meaning=table.text("meaning"),
        sentence=_sentence(table),
        advice=table.texts("advice", required=True),
        advice_by_cause={cause: advice.texts(cause, required=True) for cause in advice.data},
        title_by_cause={cause: titles.text(cause) for cause in titles.data},
        confused_with=table.texts("confused_with"),
        decided_by=table.text("decided_by", ""),
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
        outranks=table.texts("outranks"),
        unless=table.texts("unless"),
        advice_for=_advice_for(table),
        commands=table.texts("commands"),
        every_s=table.amount("every_s", 0.0),
    )


def load_signatures(folders: Iterable[Path] = ()) -> tuple[Signature, ...]:
    """The built-in signatures and those of user folders by rank; a later file with the same id replaces an earlier."""
    return with_user_files(_builtin(), folders, load_signature)


@cache
def _builtin() -> tuple[Signature, ...]:
    return tuple(load_signature(path) for path in sorted(BUILTIN.glob("*.toml")))
