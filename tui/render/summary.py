"""The summary rows at every size: what is wrong, how the run is, why and what next, where time went."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from rich.style import Style

from perfmon.core import (
    DOWNTIME,
    PRODUCTIVE,
    REST,
    Progress,
    Severity,
    format_seconds,
    format_share,
    plain,
    short_duration,
)
from perfmon.diagnosis import Diagnosis, LedgerEntry, Verdict
from perfmon.textgraphics import stack
from perfmon.viewmodel import Alert, AlertState, Freshness, Level, MonitorState, RunState

from ..theme import LEVEL_WORDS, LEVELS, ThemeStyles
from .explanation import (
    NARROW,
    badge,
    called,
    judged_ago,
    no_verdict,
    only_machines,
    wall,
    why_row,
)
from .progress import progress_row
from .rows import Row, Run, cells, crop, halves, moment_text, row_cells

_FILLS = ("full", "medium", "dark", "hatch", "light")
_ROOMY, _WIDE = 100, 150
_BEHIND = re.compile(r"\bbehind: ranks? \d[\d, -]*\b")
_EXCEPTION = re.compile(r" ?\bended by an uncaught exception\b")
_FATE = re.compile(r": hung or killed$")
_WHERE = 24
"""Cells of the name of what the verdict is about."""
_STALL = "stall"
"""The signature of a run that makes no progress."""
_OF_STEPS = "at work"
"""Productive time of a run that makes what is of little use."""
_OF_WHOLE = 38
"""Cells of the length of the window, of the lost time and of how long it lasts."""
_NOTHING = {
    RunState.LOADING: "searching for logs",
    RunState.ENDED: "no log lines",
    RunState.REPLAY: "loading",
    RunState.PAUSED: "paused at the start: space plays",
}
_LEAST_BAR = 8
_LEAST_FIGURES = 32
"""Cells from which on a part of the verdict's sentence means something."""
_ENDS = {PRODUCTIVE: -1, **dict.fromkeys(REST[1:], 1)}
"""Entries that are no cause, at the ends of the bar."""


def answer_rows(picture: MonitorState, width: int, height: int, skin: ThemeStyles) -> list[Row]:
    """The first `height` of the four rows, `width` cells each."""
    fill = skin.style("text")
    cause = rest_of_cause(picture, width, skin)
    reading = _is_reading(picture)
    drawn = (
        verdict_row(picture, width, skin),
        progress_row(picture, width, skin),
        () if reading else why_row(picture, width, skin, cause),
        () if reading else ledger_row(picture, width, skin),
    )
    return [crop(row, width, fill) for row in drawn[:height]]


# --- the verdict --------------------------------------------------------------------------------------------------
def verdict_row(picture: MonitorState, width: int, skin: ThemeStyles) -> Row:
    """Verdict with severity, cost, duration and figures."""
    snapshot = picture.snapshot
    if snapshot is None or _is_reading(picture):
        return _waiting_row(picture, skin)
    if snapshot.verdict is None or picture.before_silence or picture.dropped:
        return no_verdict(picture, snapshot, width, skin)
    verdict = snapshot.verdict
    runs = _head(picture, verdict, width, skin)
    if snapshot.run.state is Progress.FAILED:
        room = width - row_cells(runs) - 2
        sentence, _ = halves(_cause(picture, verdict, room), room, skin.glyph("cut"))
        return (*runs, (f"  {sentence}", skin.style("text")))
    stands = _stall_of(picture, verdict) is not None
    costs = _cost(picture, verdict, width - row_cells(runs), skin, ongoing=not stands, narrow=width < NARROW)
    graver = _graver(picture, verdict, skin)
    late = [judged_ago(picture, width, skin)]
    for part in graver if stands else (*graver, *costs):
        runs += part if row_cells(runs) + row_cells(part) <= width else []
    if width >= NARROW:
        runs += _figures(picture, verdict, width - row_cells(runs) - sum(map(row_cells, late)), skin)
    for part in (*costs, *late) if stands else late:
        runs += part if row_cells(runs) + row_cells(part) <= width else []
    return tuple(runs)


def _is_reading(picture: MonitorState) -> bool:
    """The history is being read: what is known of a part of it is no verdict."""
    return picture.state is RunState.LOADING and picture.progress is not None


def _waiting_row(picture: MonitorState, skin: ThemeStyles) -> Row:
    if picture.progress is not None and any(source.bytes for source in picture.sources):
        text = f"reading history: {format_share(picture.progress)}"
    elif picture.sources:
        text = f"waiting for the first line of {plain(picture.sources[0].name, 60)}"
    else:
        text = picture.unfound or _NOTHING.get(picture.state, "waiting for the first log line")
    return ((f" {skin.glyph('loading')} ", skin.style("badge-info")), (f" {text}", skin.style("text")))


def rest_of_cause(picture: MonitorState, width: int, skin: ThemeStyles) -> str:
    """The part of the cause of a failed run for which the first row has no room; "" without one."""
    snapshot = picture.snapshot
    if snapshot is None or snapshot.verdict is None or snapshot.run.state is not Progress.FAILED:
        return ""
    room = width - row_cells(_head(picture, snapshot.verdict, width, skin)) - 2
    return halves(_cause(picture, snapshot.verdict, room), room, skin.glyph("cut"))[1]


def _cause(picture: MonitorState, verdict: Verdict, room: int) -> str:
    """The sentence of a failure; where there is no room for all of it, without words that an exception's name says."""
    finding = picture.verdict_finding
    whole = plain(verdict.sentence, 2000).partition(": ")[2] if finding is None else plain(finding.sentence, 2000)
    return whole if cells(whole) <= room else _EXCEPTION.sub("", whole, count=1).lstrip(" :")


def _head(picture: MonitorState, verdict: Verdict, width: int, skin: ThemeStyles) -> list[Run]:
    """The badge, the title, and the time of which it is about if that is not the present."""
    level, muted = LEVELS[verdict.severity.value], _muted(_alerts_of(picture, verdict.signature))
    sign, word = (
        (skin.glyph(muted.value), muted.value.upper()) if muted else (skin.mark(level), LEVEL_WORDS[level] or "NOTE")
    )
    style = skin.style("muted") if muted else skin.level(level)
    runs = badge(skin, Level.NONE if muted else level, f"{sign} {word}" if width >= NARROW else sign)
    if (since := _stall_of(picture, verdict)) is not None:
        runs.append((_stalled_for(since, picture), style))
    else:
        runs.append((plain(verdict.title).upper(), style))
        where = _where(picture, verdict) if width >= NARROW else ""
        runs += [(f"  {where}", skin.style("title"))] if where else []
    return runs + _as_of(picture, verdict, width - row_cells(runs), skin)


def _where(picture: MonitorState, verdict: Verdict) -> str:
    """The rank, engine or host that the sentences of the verdict begin with; of several the costliest."""
    snapshot = picture.snapshot
    if run := _run_of(picture):
        return f"in {run}" if cells(run) <= _WHERE else ""
    if snapshot is None or snapshot.run.state is Progress.FAILED:
        return ""
    mine = [one for one in snapshot.findings if one.signature == verdict.signature and one.state != "pending"]
    mine.sort(key=lambda one: -one.lost_s)
    heads = [(plain(one.sentence).partition(": ")[0], one.identity.values()) for one in mine]
    names = list(dict.fromkeys(head for head, values in heads if any(value and value in head for value in values)))
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]}{more}" if names and cells(names[0]) <= _WHERE else ""


def _run_of(picture: MonitorState) -> str:
    """The run that the verdict is about, where several are watched as one; "" elsewhere."""
    finding, runs = picture.verdict_finding, picture.runs
    return plain(runs.get(finding.evidence[0].source, ""), 60) if finding is not None and finding.evidence else ""


def _stalled_since(picture: MonitorState) -> float | None:
    """The time since which the run makes no progress; None where it makes some, or is over."""
    run = None if picture.snapshot is None else picture.snapshot.run
    stands = run is not None and run.state is Progress.STALLED and picture.state is not RunState.ENDED
    return run.since if run is not None and stands else None


def _stall_of(picture: MonitorState, verdict: Verdict) -> float | None:
    """The same, where that is the verdict."""
    return _stalled_since(picture) if verdict.signature == _STALL else None


def _stalled_for(since: float, picture: MonitorState) -> str:
    return f"STALLED for {short_duration(picture.present - since)}"


def _graver(picture: MonitorState, verdict: Verdict, skin: ThemeStyles) -> list[list[Run]]:
    """That the run stands still, too; else a finding with a cause of its own that is more severe than the verdict."""
    found = () if picture.snapshot is None else picture.snapshot.findings
    stall = next((one for one in found if one.signature == _STALL and one.explained_by is None), None)
    since = _stalled_since(picture)
    if stall is not None and since is not None and verdict.signature != _STALL:
        words = _stalled_for(since, picture)
        return [[("  also ", skin.style("muted")), (words, skin.level(LEVELS[stall.severity.value]))]]
    graver = [one for one in found if one.severity.rank > verdict.severity.rank and one.explained_by is None]
    return [
        [("  also ", skin.style("muted")), (plain(one.title).upper(), skin.level(LEVELS[one.severity.value]))]
        for one in graver[:1]
        if one.state != "pending"
    ]


def _as_of(picture: MonitorState, verdict: Verdict, room: int, skin: ThemeStyles) -> list[Run]:
    """Age of the verdict if the logs that prove it are stale; the reason, if the cost still fits next to it."""
    if picture.is_over:
        return []
    age, who = picture.past_s, "no log output"
    alerts = _alerts_of(picture, verdict.signature)
    if age is None and picture.stale_s is not None:
        return []  # it speaks of that silence
    if age is None:
        if not alerts or any(alert.state is not AlertState.UNKNOWN for alert in alerts):
            return []
        proof = {line.source for alert in alerts for line in alert.finding.evidence}
        silent = [now for now in picture.sources if now.freshness is Freshness.STALE and now.name in proof]
        oldest = max(silent, key=lambda now: now.age_s or 0.0, default=None)
        if oldest is None:
            return []
        age, who = oldest.age_s or 0.0, f"no output from {called(oldest, picture)}"
    brief = f"  SILENT {short_duration(age)}"
    full = f"  {who} for {short_duration(age)}"
    cost = _cost(picture, verdict, 0, skin)[:1]  # what was lost matters more than whose silence it is
    fits = cells(full) + sum(map(row_cells, cost)) <= room
    return [(full if fits else brief, skin.style("stale"))]


def _cost(
    picture: MonitorState,
    verdict: Verdict,
    room: int,
    skin: ThemeStyles,
    *,
    ongoing: bool = True,
    narrow: bool = False,
) -> list[list[Run]]:
    """Cost and duration, or occurrences: parts that are shown completely or not at all."""
    text, muted = skin.style("text"), skin.style("muted")
    parts: list[list[Run]] = []
    snapshot, alerts = picture.snapshot, _alerts_of(picture, verdict.signature)
    lasting = _lasting(alerts, picture) if alerts and ongoing else ""
    if verdict.lost_s > 0 and snapshot is not None:
        share = format_share(verdict.lost_share)
        who = f"{verdict.lost_by} " if verdict.lost_by else ""
        lost: list[Run] = [(f"  {who}lost ", muted), (share, skin.style("title"))]
        brief = lasting and (narrow or (who and row_cells(lost) + _OF_WHOLE > room))
        if not brief:  # the bar names the time, too
            lost.append((f" of {wall(snapshot)}", text))
        whole: list[Run] = [*lost, (f" ({format_seconds(verdict.lost_s)})", text)]
        fits = row_cells(whole) + (cells(lasting) + 2 if lasting else 0) <= room  # since when matters more
        parts.append(whole if fits and not brief else lost)
    if alerts and ongoing:
        # How often counts samples as well as events: it is on the first row only where nothing else says how much.
        parts.append([(f"  {lasting or f'{sum(alert.count for alert in alerts)}x'}", muted)])
    if narrow and lasting and len(parts) > 1 and verdict.lost_s > 0:
        parts[:2] = parts[1::-1]  # the bar shows the cost, too
    return parts


def _lasting(alerts: Sequence[Alert], picture: MonitorState) -> str:
    """Duration; the start of counting if it was interrupted or its state was unknown for a time; "" below a second."""
    began = min(alert.began for alert in alerts)
    if any(alert.since > alert.began for alert in alerts):
        return f"since {moment_text(began, picture.time_base)}"
    until = max(alert.held_until(picture.now) for alert in alerts)
    past = picture.is_over or all(alert.state is AlertState.UNKNOWN for alert in alerts)
    known = "for" if past else "ongoing"
    return f"{known} {short_duration(until - began)}" if until - began >= 1.0 else ""


def _costs_no_time(verdict: Verdict | None) -> bool:
    """It is about what the run makes, not how fast: that the time was used is no good news."""
    return verdict is not None and verdict.lost_s == 0 and verdict.severity is Severity.CRITICAL


def _alerts_of(picture: MonitorState, signature: str) -> list[Alert]:
    over = (AlertState.RESOLVED, AlertState.PENDING)
    return [alert for alert in picture.alerts if alert.finding.signature == signature and alert.state not in over]


def _muted(alerts: Sequence[Alert]) -> AlertState | None:
    """That the user has silenced, or at least acknowledged, all of them."""
    states = {alert.state for alert in alerts}
    answered = states and states <= {AlertState.SILENCED, AlertState.ACKED}
    return None if not answered else AlertState.ACKED if AlertState.ACKED in states else AlertState.SILENCED


def _figures(picture: MonitorState, verdict: Verdict, room: int, skin: ThemeStyles) -> list[Run]:
    """The figures of the sentence, as many whole words as fit if these are more than a few: no figure is cut off.

    Of a hang that is the rank which is behind: the reason is long, and in the alert.
    """
    finding, behind = picture.verdict_finding, _BEHIND.search(plain(verdict.sentence, 2000))
    figures = behind[0] if behind else plain("" if finding is None else finding.sentence, 2000)
    figures = figures.removeprefix(f"{_where(picture, verdict)}: ")  # it is behind the title
    if not behind and (since := _stall_of(picture, verdict)) is not None:
        moment = moment_text(since, picture.time_base)
        what, _, rest = figures.partition(" for ")
        fate = _FATE.search(rest)
        figures = f"{what} since {moment}{fate[0] if fate else ''}"  # for how long is in front of it
    shown, rest = halves(figures, room - 2, skin.glyph("cut"))
    part = cells(shown) >= _LEAST_FIGURES and _stall_of(picture, verdict) is None  # the cost of a stall comes after it
    return [(f"  {shown}", skin.style("text"))] if figures and (part or not rest) else []


# --- where the window went ----------------------------------------------------------------------------------------
def ledger_row(picture: MonitorState, width: int, skin: ThemeStyles) -> Row:
    """One stacked bar of the window, and its legend: as many causes as fit."""
    snapshot = picture.snapshot
    entries = [entry for entry in (snapshot.ledger if snapshot else ()) if entry.share > 0]
    if snapshot is None or not entries or (snapshot.verdict is None and only_machines(picture)):
        return ()
    if snapshot.run.wall_s <= 0:  # no line has a time: nothing is known of where it went
        return ()
    blamed = snapshot.verdict.signature if snapshot.verdict is not None else ""
    order = sorted(entries, key=lambda entry: (_ENDS.get(entry.cause, 0), entry.cause != blamed, -entry.share))
    head = f" {_span_text(picture, snapshot, width)} "
    quality = _costs_no_time(snapshot.verdict) and snapshot.run.state is not Progress.FAILED
    names = {PRODUCTIVE: _OF_STEPS} if quality else {}
    legend = _legend(order, names, width - cells(head) - 1 - max(_LEAST_BAR, width // 4), skin)
    room = width - cells(head) - sum(cells(text) for text, _ in legend) - 1
    bar = _bar(order, max(4, room), skin)
    return ((head, skin.style("muted")), *bar, (" ", skin.style("text")), *legend)


def _span_text(picture: MonitorState, snapshot: Diagnosis, width: int) -> str:
    """`last 10m`, `1h 20m until it failed`: the time that the bar is about."""
    wall, state = short_duration(snapshot.run.wall_s), snapshot.run.state
    past = picture.actual is not None and state not in (Progress.FAILED, Progress.FINISHED)
    if width < NARROW:
        return f"{wall} to last line" if past else wall
    if state is Progress.FAILED and not any(
        entry.cause == DOWNTIME and entry.share >= 0.1 for entry in snapshot.ledger
    ):
        return f"{wall} until it failed"
    if state in (Progress.FAILED, Progress.FINISHED):
        return f"{wall} in all"
    if past:  # what came then is unknown
        return f"{wall} until the last line"
    return f"last {wall}" if width >= _ROOMY else wall


def _look(at: int, entry: LedgerEntry, skin: ThemeStyles) -> tuple[str, Style]:
    """Character and style of a cause: distinct without colour too."""
    if entry.cause in REST[1:]:
        return skin.glyph("dot"), skin.style("faint")
    fill = "full" if entry.cause == "productive" else _FILLS[1 + (at - 1) % (len(_FILLS) - 1)]
    return skin.glyph(fill), skin.cause(entry.cause)


def _bar(entries: Sequence[LedgerEntry], width: int, skin: ThemeStyles) -> list[Run]:
    sizes = stack([entry.share for entry in entries], width)
    runs = []
    for at, (entry, size) in enumerate(zip(entries, sizes, strict=True)):
        glyph, style = _look(at, entry, skin)
        runs.append((glyph * size, style))
    return runs


def _legend(entries: Sequence[LedgerEntry], names: Mapping[str, str], room: int, skin: ThemeStyles) -> list[Run]:
    """Entries with lost time first, beginning with the verdict's cause; productive time is dropped if room is short."""
    looks = [(entry, *_look(at, entry, skin)) for at, entry in enumerate(entries)]
    runs: list[Run] = []
    for entry, glyph, style in sorted(looks, key=lambda look: look[0].cause in _ENDS):
        label = f" {names.get(entry.cause, entry.cause)} {format_share(entry.share)} "
        if cells(label) + 1 > room:
            break
        room -= cells(label) + 1
        runs += [(glyph, style), (label, skin.style("text"))]
    return runs
