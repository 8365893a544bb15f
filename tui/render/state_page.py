"""Pages of a run without an alert: its state and what would prove it; a format for logs that are not recognised."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from perfmon.core import Progress, TimeBase, format_seconds, format_value, metric_unit, plain
from perfmon.diagnosis import Assessment, Diagnosis, EvidenceLine
from perfmon.viewmodel import MonitorState

from ..theme import ThemeStyles
from .explanation import without_alert
from .progress import overdue, progress_row
from .rows import Entry, day_text, moment_text, paragraph, rule, short_duration
from .sources import common_folder

if TYPE_CHECKING:
    from perfmon.sources.formats import Proposal

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
    if picture.idle_since is not None:
        return _IDLE
    return _WELL if snapshot.assessment is Assessment.HEALTHY else _EARLY


def _since(picture: MonitorState, snapshot: Diagnosis, kind: str) -> Iterable[str]:
    """The moment since which it is so, and how long ago that is."""
    run = snapshot.run
    since = {
        _OVER: run.since,
        _SILENT: None if picture.stale_s is None else picture.present - picture.stale_s,
        _LATE: picture.pause_since,
        _IDLE: run.idle,
    }.get(kind)
    what = {_OVER: "the end", _SILENT: "the last line", _LATE: "the last progress", _IDLE: "the last request"}
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
    folder = common_folder([source.name for source in picture.sources])
    for source in picture.sources[:_MOST_LOGS]:
        age = "" if source.age_s is None else f", last written {short_duration(source.age_s)} ago"
        read = f"{source.events:,} of {source.lines:,} lines recognised"
        yield f"{plain(source.name.removeprefix(folder), 80)}: {read}{age}"
    if len(picture.sources) > _MOST_LOGS:
        yield f"and {len(picture.sources) - _MOST_LOGS} more logs"


# --- A format that was learned ---

_SAMPLES = 2


def proposal_page(
    log: str, proposal: Proposal, target: Path, again: bool, skin: ThemeStyles, width: int
) -> list[Entry]:
    """What a format reads of a log, with sample lines and their values, and what applying it does."""
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
