"""All that is known of one alert, as lines: what holds, what else it could be, what it costs, what to do, the proof."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from itertools import count, repeat
from pathlib import Path
from typing import TYPE_CHECKING

from perfmon.core import (
    Progress,
    TimeBase,
    counted,
    format_seconds,
    format_share,
    format_value,
    metric_unit,
    plain,
    short_duration,
)
from perfmon.diagnosis import Assessment, Diagnosis, EvidenceLine, Finding
from perfmon.textgraphics import compact_seconds, cut, fit
from perfmon.viewmodel import BEYOND, Alert, MonitorState

from ..theme import ThemeStyles
from .alerts import LEVELS, WORDS, age_s, state_style, state_words, waterfall
from .progress import IDLE_OR_HUNG, idle, output_since, overdue, progress_row, unused
from .rows import Entry, Words, cells, day_text, ending, moment_text, paragraph, rule

if TYPE_CHECKING:
    from perfmon.sources.formats import Proposal


_HELD = {True: ("firing", "text"), False: ("resolved", "muted"), None: ("unknown", "stale")}
"""Glyph and style of a condition that is met, is not, or could not be observed: a fault that is met is not good."""
_HOUR_S = 3600.0
_SOURCE_SHARE = 0.35


def status(alert: Alert, picture: MonitorState, skin: ThemeStyles, width: int) -> Words:
    """Severity, state, age, how often, first and last."""
    finding, base = alert.finding, picture.time_base
    level = LEVELS[finding.severity]
    words = state_words(alert, base) or ("until the end" if picture.is_over else alert.state.value)
    ago = " ago" if picture.is_over else ""
    return (
        (f"{skin.glyph('edge')}{skin.glyph(level)} {WORDS[finding.severity]} ", level),
        (f"{skin.glyph(alert.state.value)} {words} ", state_style(alert)),
        (f"{compact_seconds(age_s(alert, picture), 6)}{ago}  ", "muted"),
        (f"{finding.title}  " if width >= 110 else "", "title"),
        (f"{counted(alert.count, 'occurrence')}  ", "text"),
        (f"first {moment_text(alert.began, base)}  last {moment_text(alert.last, base)}", "muted"),
    )


def detail(alert: Alert, picture: MonitorState, skin: ThemeStyles, width: int) -> list[Entry]:
    """The whole page at that width."""
    finding = alert.finding
    room = width - 2
    sections: list[tuple[str, str, list[Words]]] = [
        ("POSSIBLE CAUSES", "the likeliest first", _hypotheses(finding, skin, room)),
        ("WHY", _confidence(finding), _conditions(finding, skin, room)),
        (
            "WHAT TO DO",
            "y copies the command under the cursor" if width >= 60 else "",
            _marked(map(str, count(1)), finding.advice, room, "text", "accent"),
        ),
        ("COST", "", [words for text in _cost(alert, picture) for words in paragraph(text, room, "text", "  ")]),
        ("THRESHOLDS", "B learns them from this run, or takes these back", _limits(finding, picture, room)),
        ("OFTEN CONFUSED WITH", "", _rivals(finding, picture, skin, room)),
        (
            "NOT OBSERVED",
            "would raise the confidence",
            _marked(repeat(skin.glyph("unknown")), finding.unseen, room, "muted", "stale"),
        ),
        ("OCCURRENCES", "newest first", waterfall(alert, picture, skin, width)),
    ]
    lines = [Entry(words) for words in paragraph(finding.sentence, room, "text", " ")]
    # A name that fills the row would leave its value a column, and every line of that as wide as the name.
    named = ((f" {cut(name, max(1, room // 2))}: ", value) for name, value in alert.key[1])
    lines += [Entry(words) for name, value in named for words in paragraph(value, room, "muted", name)]
    for title, note, body in sections:
        if body:
            lines += [Entry(rule(title, skin, width, note)), *map(Entry, body)]
        if title == "WHAT TO DO":
            lines += _commands(finding, skin, room)
    return [*lines, *_evidence(finding.evidence, skin, width)]


def _commands(finding: Finding, skin: ThemeStyles, room: int) -> Iterable[Entry]:
    """The commands to run; the cursor stops at each, and `y` copies it. The last one explains the signature."""
    for command in (*finding.commands, f"perfmon rules explain {finding.signature}"):
        sign = skin.glyph("bullet") if command.startswith("--") else "$"
        first, *rest = paragraph(command, room, "accent", f"   {sign} ", "muted")
        yield Entry(first, command=command)
        yield from map(Entry, rest)


def _confidence(finding: Finding) -> str:
    held = sum(condition.held is True for condition in finding.conditions)
    return f"{held} of {counted(len(finding.conditions), 'condition')} met" if finding.conditions else ""


def _conditions(finding: Finding, skin: ThemeStyles, room: int) -> list[Words]:
    rows: list[Words] = []
    for condition in finding.conditions:
        glyph, style = _HELD[condition.held]
        rows += paragraph(condition.text, room, "text", f" {skin.glyph(glyph)} ", style)
    return rows


def _limits(finding: Finding, picture: MonitorState, room: int) -> list[Words]:
    """The thresholds of its metrics that are in force, and where they come from."""
    known = picture.snapshot.metrics if picture.snapshot is not None else {}
    names = dict.fromkeys(word for one in finding.conditions for word in one.value.split() if word in known)
    rows: list[Words] = []
    for stats in (known[name] for name in names):
        if stats.good is not None and stats.critical is not None:
            better, worse = "<>" if stats.critical >= stats.good else "><"
            good, critical = (format_value(value, stats.unit) for value in (stats.good, stats.critical))
            origin = stats.bands_from or "a file of yours"
            text = f"{stats.name}: good {better} {good}, critical {worse} {critical} (from {origin})"
            rows += paragraph(text, room, "muted", "  ")
    return rows


_STANDING = {"shown": True, "refuted": False}
"""Hypotheses in terms of conditions; the others are open."""


def _hypotheses(finding: Finding, skin: ThemeStyles, room: int) -> list[Words]:
    """Each possible cause with its standing, and the values for it, against it, and not observed."""
    rows: list[Words] = []
    for number, one in enumerate(finding.hypotheses, start=1):
        glyph, style = _HELD[_STANDING.get(one.standing)]
        rows += paragraph(f"{number} {one.title} ({one.standing})", room, "title", f" {skin.glyph(glyph)} ", style)
        for held, texts in ((True, one.supporting), (False, one.contradicting), (None, one.unseen)):
            glyph, style = _HELD[held]
            if texts:
                rows += paragraph("; ".join(texts), room, "muted", f"     {skin.glyph(glyph)} ", style)
    return rows


def _rivals(finding: Finding, picture: MonitorState, skin: ThemeStyles, room: int) -> list[Words]:
    """Signatures that are often confused with it, and if they were found too."""
    found = {other.signature: other.state for other in (picture.snapshot.findings if picture.snapshot else ())}
    rows: list[Words] = []
    for rival in finding.confused_with:
        name = rival.partition(":")[0]
        if name in found:
            rows += paragraph(
                f"{rival} (also found: {found[name]})", room, "text", f" {skin.glyph('warning')} ", "warning"
            )
        else:
            absent = "" if " " in name else " (ruled out)"
            rows += paragraph(f"{rival}{absent}", room, "muted", f" {skin.glyph('bullet')} ")
    return rows


def _cost(alert: Alert, picture: MonitorState) -> Iterable[str]:
    finding = alert.finding
    wall = picture.snapshot.run.wall_s if picture.snapshot else picture.window_s
    if finding.lost_s > 0:
        per_hour = "" if picture.is_over else f"; ≈ {format_seconds(finding.lost_share * _HOUR_S)} per hour"
        share = format_share(finding.lost_share)
        yield f"{format_seconds(finding.lost_s)} of the last {short_duration(wall)} ({share}){per_hour}"
        verdict = None if picture.snapshot is None else picture.snapshot.verdict
        if verdict is not None and verdict.lost_by and verdict.signature == finding.signature:
            yield f"time of {verdict.lost_by}: steps take longer only as far as they wait for it"
    elif alert.lost_s <= 0:
        yield "no time attributed"
    if alert.lost_s > finding.lost_s + 1.0:
        yield f"{format_seconds(alert.lost_s)} since perfmon started"
    if finding.explained_by is not None:
        yield f"explained by {finding.explained_by}: fix that first"


def _marked(marks: Iterable[str], texts: Sequence[str], room: int, style: str, mark_style: str) -> list[Words]:
    """Each text as a paragraph behind its mark."""
    pairs = zip(marks, texts, strict=False)
    return [words for mark, text in pairs for words in paragraph(text, room, style, f" {mark} ", mark_style)]


def _evidence(lines: Sequence[EvidenceLine], skin: ThemeStyles, width: int) -> list[Entry]:
    """Position and text of each line, log by log in their order; keys act on the one under the cursor."""
    if not lines:
        return []
    lines = sorted(lines, key=lambda line: (line.source, line.line))
    where = [f"{line.source}:{line.line}" for line in lines]
    column = min(max(cells(place) for place in where), max(8, int(_SOURCE_SHARE * width)))
    rows = [Entry(rule("EVIDENCE", skin, width, "Enter log  y copy  O pager" if width >= 60 else ""))]
    for place, line in zip(where, lines, strict=True):
        words = (f" {ending(place, column, skin)}  ", "accent"), (fit(line.text, max(0, width - column - 4)), "text")
        rows.append(Entry(words, line))
    return rows


# --- Pages of a run without an alert: its state and what would prove it; a format for logs that are not recognised ---

_SILENT, _LATE, _IDLE, _OVER, _WELL, _EARLY = "silent", "late", "idle", "over", "well", "early"
_PROOF = {
    _SILENT: (
        "A line that reports an end or an error: then the run is over, and the reason is known.",
        "A process that is gone: it ended or was killed without a word. dmesg and the scheduler's accounting show why.",
        "A process that is there: its stack shows if it waits (a collective, a lock, data) or works on a long step.",
    ),
    _LATE: (
        "The next step: then it was a pause (evaluation, a checkpoint, compilation), no hang.",
        "A stack that does not change over a minute: then it hangs, and the stack shows where.",
    ),
    _IDLE: (
        "A new request: statistics that show it running prove that the server works.",
        "An answer to a health check: no answer means that it hangs.",
    ),
    _OVER: ("Nothing more is expected: a line of the logs reports the end.",),
    _WELL: (
        "It holds for what the logs report in this window, no further: what is not observed is not judged.",
        "A finding would replace it as soon as its conditions hold.",
    ),
    _EARLY: ("A few more steps or requests: too little was observed to judge.",),
}
_ADVICE = {
    _SILENT: ("See if the process still runs; if it does, see what it waits for.",),
    _LATE: ("See what the processes do; with several ranks, compare their stacks.",),
    _IDLE: (
        "Nothing, if no requests are expected; otherwise check the client, the router and the health of the server.",
    ),
    _OVER: ("Keep a report of it, or compare it with another run.",),
    _WELL: ("Nothing. To be faster, see where the time goes (row 4), or take a profile and name it as a SOURCE.",),
    _EARLY: ("Wait; D shows how much of each log is recognised.",),
}
_COMMANDS = {
    _SILENT: ("ps -eo pid,etime,stat,args | grep NAME", "nvidia-smi", "py-spy dump --pid PID"),
    _LATE: ("py-spy dump --pid PID", "nvidia-smi"),
    _IDLE: ("curl -s http://HOST:PORT/health",),
    _OVER: ("perfmon report LOGS -o run.html", "perfmon compare BEFORE AFTER"),
    _WELL: ("perfmon snapshot LOGS",),
}
_MOST_LOGS = 8


def state_page(
    picture: MonitorState, snapshot: Diagnosis, last: Sequence[EvidenceLine], skin: ThemeStyles, width: int
) -> list[Entry]:
    """The whole page at that width; `last` are the last lines of the logs."""
    room, kind = width - 2, _kind(picture, snapshot)
    entries = [Entry(words) for words in paragraph(without_alert(picture, snapshot), room, "text", " ")]

    def section(title: str, texts: Iterable[str], mark: str, note: str = "") -> None:
        lines = [Entry(words) for text in texts for words in paragraph(text, room, "text", f" {mark} ", "accent")]
        entries.extend([Entry(rule(title, skin, width, note)), *lines] if lines else [])

    bullet = skin.glyph("bullet")
    section("SINCE", _since(picture, snapshot, kind), bullet)
    section("WHAT IS KNOWN", _known(picture, snapshot, skin), bullet)
    section("WHAT WOULD PROVE IT", _PROOF[kind], bullet)
    section("WHAT TO DO", _ADVICE[kind], skin.glyph("next"), "y copies the command under the cursor")
    for command in _COMMANDS.get(kind, ()):
        first, *rest = paragraph(command, room, "accent", "   $ ", "muted")
        entries += [Entry(first, command=command), *map(Entry, rest)]
    section("NOT OBSERVED", snapshot.unseen, skin.glyph("unknown"))
    if last:
        entries.append(Entry(rule("LAST LINES", skin, width, "Enter log  y copy  O pager")))
        for line in last:
            place = f" {line.source}:{line.line}  "
            first, *rest = paragraph(line.text, room, "text", place if len(place) < room // 2 else " ", "accent")
            entries += [Entry(first, line), *map(Entry, rest)]
    return entries


def _kind(picture: MonitorState, snapshot: Diagnosis) -> str:
    if picture.is_over:
        return _OVER
    if picture.stale_s is not None:
        return _SILENT if snapshot.run.idle is None else _IDLE
    if overdue(picture, snapshot) is not None:
        return _LATE
    if picture.idle_since is not None or picture.unused_since is not None:
        return _IDLE
    return _WELL if snapshot.assessment is Assessment.HEALTHY else _EARLY


def _since(picture: MonitorState, snapshot: Diagnosis, kind: str) -> Iterable[str]:
    """The moment since which it is so, and how long ago that is."""
    run = snapshot.run
    since = {
        _OVER: run.since,
        _SILENT: None if picture.stale_s is None else picture.present - picture.stale_s,
        _LATE: picture.pause_since,
        _IDLE: run.unused if run.idle is None else run.idle,
    }.get(kind)
    request = "the last line" if run.idle is None else "the last request"
    what = {_OVER: "the end", _SILENT: "the last line", _LATE: "the last progress", _IDLE: request}
    if since is None:
        yield f"{format_seconds(run.wall_s)} are judged, up to the last line"
        return
    ago = f"{short_duration(max(0.0, picture.present - since))} ago"
    day = f"{day_text(since, picture)} " if picture.dated else ""
    clock = f" ({day}{moment_text(since, picture.time_base)})" if picture.time_base is TimeBase.WALL else ""
    yield f"{what[kind]} was {ago}{clock}"


def _known(picture: MonitorState, snapshot: Diagnosis, skin: ThemeStyles) -> Iterable[str]:
    """The row about the run in full, its rhythm, what was observed, and each log with its age."""
    run = snapshot.run
    if row := progress_row(picture, 10_000, skin):
        yield "".join(text for text, _ in row).strip()
    if run.pace is not None and run.state is Progress.RUNNING:
        what = "a step" if run.pace.of_steps else "progress"
        limit = format_seconds(run.pace.limit_s)
        yield f"{what} usually every {format_seconds(run.pace.usual_s)}; a pause of {limit} is unusual"
    yield plain(snapshot.summary, 1000)
    for source in picture.sources[:_MOST_LOGS]:
        age = "" if source.age_s is None else f", last written {short_duration(source.age_s)} ago"
        read = f"{source.events:,} of {source.lines:,} lines recognised"
        yield f"{plain(source.name.removeprefix(picture.folder), 80)}: {read}{age}"
    if len(picture.sources) > _MOST_LOGS:
        yield f"and {len(picture.sources) - _MOST_LOGS} more logs"


# --- A format that was learned ---

_SAMPLES = 2


def without_alert(picture: MonitorState, snapshot: Diagnosis) -> str:
    """Explain the first row where no alert does."""
    pace = snapshot.run.pace
    if picture.stale_s is not None and not picture.is_over:
        return f"SILENT: no log output for {format_seconds(picture.stale_s)}, and no line reports an end"
    if (late := overdue(picture, snapshot)) is not None and pace is not None:
        limit = f"limit {format_seconds(BEYOND * pace.limit_s)}, by its own rhythm"
        output = output_since(picture, snapshot)
        return f"WATCH: {late} ({limit}){f', {output}' if output else ''}; no rule proves a stall"
    if (quiet := unused(picture)) is not None:
        return f"IDLE?: {quiet}, no output since its last line. {IDLE_OR_HUNG}"
    if (unrequested := idle(picture, snapshot)) is not None:
        return f"IDLE: {unrequested}, by the last statistics in the logs"
    known = snapshot.run.state.value.upper() if picture.is_over else snapshot.assessment.value.upper()
    return f"{known}, no alerts: {plain(snapshot.summary, 1000)}"


def proposal_page(
    log: str, proposal: Proposal, target: Path, again: bool, skin: ThemeStyles, width: int
) -> list[Entry]:
    """The sample lines of a proposed format with their values, and what applying it does."""
    room, bullet = width - 2, skin.glyph("bullet")
    reads = f"{proposal.recognised:,} of {proposal.lines:,} lines of {plain(log, 200)} would be recognised"
    after = "reads the logs of this run again with it" if again else "is used from the next start"
    sections = [
        ("FIELDS", [", ".join(proposal.found)]),
        ("ENTER", [f"writes {target} and {after}; nothing has been written yet"]),
    ]
    lines = [Entry(words) for words in paragraph(reads, room, "text", " ")]
    for title, texts in sections:
        lines.append(Entry(rule(title, skin, width)))
        lines += [Entry(words) for text in texts for words in paragraph(text, room, "text", f" {bullet} ", "accent")]
    lines.append(Entry(rule("SAMPLE LINES", skin, width, "and what is read of them")))
    patterns = tomllib.loads(proposal.toml).get("pattern", ())
    samples = [sample for pattern in patterns for sample in pattern.get("sample", ())]
    for sample in samples[:_SAMPLES]:
        lines += [Entry(words) for words in paragraph(plain(sample["text"], 2000), room, "muted", " ")]
        given = sample.get("gives", {}).items()
        values = "  ".join(f"{name} {format_value(float(value), metric_unit(name))}" for name, value in given)
        lines += [
            Entry(words) for words in paragraph(values or "its counter", room, "text", f"   {skin.glyph('next')} ")
        ]
    left = [line.lstrip("# ") for line in proposal.toml.splitlines() if line.startswith("# Not read")]
    return [*lines, *(Entry(words) for text in left for words in paragraph(text, room, "muted", " "))]
