"""The first row without a verdict; the second row: values against their limits, rivals, and the one thing to do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from perfmon.core import Progress, TimeBase, counted, format_seconds, format_share, plain, read_value, short_duration
from perfmon.diagnosis import Assessment, ConditionState, Diagnosis, Finding, MetricStats, Verdict
from perfmon.sources.formats import in_words
from perfmon.sources.pollers import Area
from perfmon.textgraphics import compact_value, shown_unit
from perfmon.viewmodel import Freshness, Level, MonitorState, RunState, SourceStatus, level_within

from ..theme import LEVELS, ThemeStyles
from .progress import IDLE_OR_HUNG, ceased, idle, output_since, overdue, restarted, unused
from .rows import Row, Run, cells, day_text, halves, moment_text, row_cells

_WIDE = 150
_LEAST_CAUSE = 16
"""Cells that a cut cause needs to mean something."""
_SILENT = (
    "Does the process still run (ps, nvidia-smi)? If it does, py-spy dump --pid PID shows what it waits for.",
    "Does the process still run? If it does: py-spy dump --pid PID",
    "Does the process still run (ps)?",
)
"""Advice for a run without output, from the longest to the shortest text."""
_EXPLAINED = re.compile(r" \([^()]*\)")
_ASIDE = re.compile(r" \(|[.;:,] | for | so that ")
_CLAUSE = re.compile(r"(?=[,;:.] )| (?=or |and |for )")
"""Places at which an advice may end before its last word."""
_OVER = re.compile(r"\b(?:max|min|mean|last|p\d+|share|rate) of ([\w.]+) over [\d.]+ \w+(?= )")
_SHARE = re.compile(r"\bshare of the time in ([\w.]+) over [\d.]+ \w+(?= )")
_LIMIT = re.compile(r" ?\((?:limit: )?[^()]*\)(?=\s*$)")
_RATIO = re.compile(r" / |, ")
"""Values that only a sentence explains: of one metric relative to another, or of several."""
_NAME = re.compile(r" (?=-?\d)")

Part = list[Run]


def why_row(picture: MonitorState, width: int, skin: ThemeStyles, cause: str = "") -> Row:
    """The values that prove the verdict, each against its limits; its rivals, and the one thing to do.

    `cause` is what the first row had no room for of the cause of a failure: it is worth more than those values.
    """
    snapshot = picture.snapshot
    if snapshot is None:
        return ()
    if snapshot.verdict is None or picture.before_silence or picture.dropped:
        return _why_not(picture, snapshot, width, skin)
    finding = picture.verdict_finding
    muted = skin.style("muted")
    lead: Part = [("  ", muted)] if width < _WIDE else [("  why  ", muted)]
    sign = f"{'' if width < _WIDE else 'next '}{skin.glyph('next')} "
    full, brief, values = _proof(finding, snapshot, skin) if finding is not None else ([], [], [])
    if cause:
        return _of_failure(cause, finding, width, lead, sign, skin)
    whole = cells(sign + _advice(finding, width, skin.glyph("cut")))
    least = cells(sign + _advice(finding, 0, skin.glyph("cut")))
    words = [[*part[:-1], (_LIMIT.sub("", part[-1][0]), part[-1][1])] for part in full if part]
    room = width - row_cells(lead)
    forms = [(parts, advice) for advice in (whole, least) for parts in (full, words, brief)]
    shown = next((parts for parts, advice in forms if _size(parts) <= room - advice), None)
    shown = shown or _fit(brief, room - least) or _fit(values, room - least)
    advice = sign + _advice(finding, room - _size(shown) - cells(sign), skin.glyph("cut"))
    room -= cells(advice)
    if width >= _WIDE and finding is not None:
        shown = [*shown, *_fit(_besides(snapshot, snapshot.verdict, skin), room - _size(shown))]
        shown += _rivals(finding, snapshot, room - _size(shown), skin)
        shown += _fit(_origin(finding, snapshot, skin), room - _size(shown))
    # The values are those of one occurrence; the sentence is about all of them.
    one_of: Part = [("e.g. ", muted)] if finding is not None and finding.count > 1 and shown else []
    lead += one_of if row_cells(one_of) <= room - _size(shown) else []
    return (*lead, *(run for part in shown for run in part), (advice, skin.style("accent")))


def _of_failure(cause: str, finding: Finding | None, width: int, lead: Part, sign: str, skin: ThemeStyles) -> Row:
    """The rest of the cause and what to do: each is cut before the other has no room at all."""
    cut_off, room = skin.glyph("cut"), width - row_cells(lead) - cells(sign) - 2
    advice = _advice(finding, max(room // 2, room - cells(cause) - 2), cut_off)
    left = room - cells(advice) - 2
    shown, _ = halves(f"{cut_off} {cause}", left, cut_off)
    text = [(f"{shown}  ", skin.style("text"))] if left >= _LEAST_CAUSE else []
    return (*lead, *text, (f"{sign}{advice}", skin.style("accent")))


def _size(parts: Iterable[Part]) -> int:
    """Cells of all of them."""
    return sum(map(row_cells, parts))


def _fit(parts: Sequence[Part], room: int) -> list[Part]:
    shown: list[Part] = []
    for part in parts:
        if part and row_cells(part) <= room:
            shown.append(part)
            room -= row_cells(part)
    return shown


def _distinct(parts: Sequence[Part]) -> list[Part]:
    """Two conditions may be about one value; the last run of a part is its limit."""
    values = [part[:-1] for part in parts]
    return [part for at, part in enumerate(parts) if values[at] not in values[:at]]


def _advice(finding: Finding | None, room: int, cut_off: str) -> str:
    """Next step; without its explanation if room is short, which one sees."""
    text = plain(finding.advice[0]) if finding is not None and finding.advice else ""
    if cells(text) <= room:
        return text
    whole = _EXPLAINED.sub("", text).rstrip(".")
    if cells(whole) <= room:
        return whole
    brief = _ASIDE.split(text, maxsplit=1)[0].rstrip(" .")
    if brief == text.rstrip(" ."):
        return brief
    longest = [whole[: part.start()] for part in _CLAUSE.finditer(whole)]
    fitting = [part for part in longest if cells(part) > cells(brief) and cells(part) + 2 <= room]
    return f"{fitting[-1].rstrip(' ,;:.') if fitting else brief} {cut_off}"


# --- values against their limits ----------------------------------------------------------------------------------
def _proof(finding: Finding, snapshot: Diagnosis, skin: ThemeStyles) -> tuple[list[Part], list[Part], list[Part]]:
    """The values that conditions met, with their limits, without, and where there is no room for ratios in words."""
    muted, text = skin.style("muted"), skin.style("text")
    described = [(one, *_described(one, finding, snapshot, skin)) for one in finding.conditions]
    full = [[*value, (f" ({limit})  " if limit else "  ", muted)] for _, value, limit in described if value]
    values = [[*value, ("  ", muted)] for _, value, _ in described if value]
    brief = list(values)
    for at, (one, value, _) in enumerate(described):
        sentence = plain(one.text, 200)
        if one.held and _RATIO.search(one.value):
            full[at], brief[at] = (
                [*value[:1], (f"{words}  ", text)] for words in (sentence, _EXPLAINED.sub("", sentence))
            )
        elif one.held and len(described) == 1:  # there is room for a sentence
            full = [[*value[:1], (f"{sentence}  ", text)]]
    return _distinct(full), _distinct(brief), _distinct(values)


def _described(condition: ConditionState, finding: Finding, snapshot: Diagnosis, skin: ThemeStyles) -> tuple[Part, str]:
    """The value that a condition met, marked by where it stands in its band, and the limit that decides it."""
    muted, text = skin.style("muted"), skin.style("text")
    value = _met(condition)
    words = in_words(value)
    if condition.held is None:
        return [(f"{skin.glyph('unknown')} ", skin.style("stale")), (words, muted)], ""
    stats = snapshot.metrics.get(_name(value))
    level = _level(value, stats)
    if level is not None and (condition.held or not _is_proven(value, finding)):
        return [(f"{skin.mark(level)} ", skin.level(level)), (words, text)], condition.limit
    if condition.held:
        return [(f"{skin.glyph('bullet')} ", text), (words, text)], condition.limit
    unmet = f"{_name(words)} {condition.limit}" if _is_proven(value, finding) and condition.limit else words
    return [(f"not {unmet}", muted)], ""


def _is_proven(value: str, finding: Finding) -> bool:
    """Some condition holds by it: where it fails another one, only what that requires is new."""
    return any(_met(other) == value for other in finding.conditions if other.held)


def _met(condition: ConditionState) -> str:
    """The values that a condition met."""
    return _SHARE.sub(r"share of time \1", _OVER.sub(r"\1", plain(condition.value or condition.text, 80)))


def _name(value: str) -> str:
    """The metric of `queue_ms 30.3 s`, the ratio of `waiting / running 0.72`."""
    return _NAME.split(value, maxsplit=1)[0]


def _level(value: str, stats: MetricStats | None) -> Level | None:
    """Level of a value by the thresholds of its metric; None without any."""
    if stats is None:
        return None
    try:
        number = read_value(value.removeprefix(_name(value)).strip(), stats.unit)
    except ValueError:
        return None
    return level_within(stats, number) or None


def _origin(finding: Finding, snapshot: Diagnosis, skin: ThemeStyles) -> list[Part]:
    """The origin of the first threshold that decides: one of another model may mislead."""
    stats = (snapshot.metrics.get(_name(_met(one))) for one in finding.conditions if one.held)
    origin = next((one.bands_from for one in stats if one is not None and one.critical is not None), "")
    return (
        [[(f"thresholds: {plain(origin, 60).partition(' (')[0]} (B learns)  ", skin.style("faint"))]] if origin else []
    )


# --- what else it may be ------------------------------------------------------------------------------------------
def _besides(snapshot: Diagnosis, verdict: Verdict, skin: ThemeStyles) -> list[Part]:
    """Other findings that have a cause of their own."""
    others = [
        finding
        for finding in snapshot.findings
        if finding.signature != verdict.signature and finding.explained_by is None and finding.state != "pending"
    ]
    if not others:
        return []
    named = ", ".join(f"{plain(other.title).lower()} {format_share(other.lost_share)}" for other in others[:2])
    return [[(f"also: {named}  ", skin.style("muted"))]]


def _rivals(finding: Finding, snapshot: Diagnosis, room: int, skin: ThemeStyles) -> Iterator[Part]:
    """Ruled-out signatures, with the reason if there is room."""
    found = {other.signature for other in snapshot.findings}
    for rival in finding.confused_with:
        name, _, reason = plain(rival).partition(": ")
        if name in found:
            continue
        brief, full = f"not {name}  ", f"not {name} ({reason})  "
        text = full if reason and cells(full) <= room else brief
        if cells(text) <= room:
            room -= cells(text)
            yield [(text, skin.style("muted"))]


# --- where nothing is wrong ---------------------------------------------------------------------------------------
def _why_not(picture: MonitorState, snapshot: Diagnosis, width: int, skin: ThemeStyles) -> Row:
    """Minor findings, or missing data, of a healthy run."""
    muted = skin.style("muted")
    if picture.unfound and not any(source.lines for source in picture.sources):
        what = "Name the file itself, or wait: a log that appears there is read at once."
        what = what if cells(what) + 4 <= width else "Name the file, or wait for a log."
        return ((f"  {skin.glyph('next')} {what}", skin.style("accent")),)
    silent = picture.stale_s is not None or snapshot.run.state is Progress.SILENT
    if (silent or overdue(picture, snapshot) is not None) and not picture.is_over:
        texts = _SILENT if snapshot.run.idle is None else _SILENT[-1:]
        advice = next((text for text in texts if cells(text) + 4 <= width), texts[-1])
        return ((f"  {skin.glyph('next')} {advice}", skin.style("accent")),)
    if unused(picture) is not None:
        return ((f"  {skin.glyph('next')} {IDLE_OR_HUNG}", skin.style("accent")),)
    if restart := restarted(picture, snapshot):
        return ((f"  {skin.mark(Level.WARNING)} {restart[0]}", skin.style("warning")), (restart[1], skin.style("text")))
    firing = [finding for finding in snapshot.findings if finding.state != "pending"]
    if firing:
        named = " · ".join(f"{plain(finding.title)} ({counted(finding.count, 'time')})" for finding in firing[:3])
        return (("  also ", muted), (named, skin.style("text")))
    if snapshot.assessment is Assessment.UNREADABLE:
        what = ":learn proposes a format; D shows what is read of each log"
        return ((f"  {skin.glyph('next')} {what}", skin.style("accent")),)
    if picture.state is RunState.LOADING and picture.progress is not None:
        return ((f"  reading existing log history: {format_share(picture.progress)}", muted),)
    names = [_EXPLAINED.sub("", plain(text.partition(":")[0])).removeprefix("no ") for text in snapshot.unseen[:3]]
    unseen = "; ".join(names)
    beyond = any(lane.now_level is Level.CRITICAL for lane in picture.board.metrics)
    silent = bool(picture.seen) and not any(source.lines for source in picture.sources)
    if not unseen or beyond or silent:
        return _within_limits(picture, width, skin)
    return ((f"  not observed: {unseen}", muted),)


def _within_limits(picture: MonitorState, width: int, skin: ThemeStyles) -> Row:
    """The last values of what has limits, the worst first: that all is well is a claim, too."""
    runs: Part = [("  ", skin.style("muted"))]
    known = [lane for lane in picture.board.metrics if lane.good is not None and lane.now is not None]
    for lane in sorted(known, key=lambda lane: lane.now_level is not Level.CRITICAL):
        named = in_words(f"{lane.metric} {compact_value(lane.now, shown_unit(lane.unit), 9)}")
        value = (f"{plain(f'{lane.group} {named}'.lstrip(), 80)}  ", skin.style("text"))
        part = [(f"{skin.mark(lane.now_level)} ", skin.level(lane.now_level)), value]
        if row_cells(runs) + row_cells(part) > width:
            break
        runs += part
    return tuple(runs)


# --- The first row without a verdict: what is known of the run, and why no more is; parts of every first row -------

NARROW = 72
_CAREFUL = (Assessment.WATCH, Assessment.UNREADABLE)
_OF_RUNS = (Area.QUEUE, Area.VALUE, Area.SOCKET, Area.JOB)
"""Areas that belong to a run; hosts and GPUs exist without one."""
_FATES = "hung, killed or over"
_STEP_S = 5.0


def badge(skin: ThemeStyles, level: Level, text: str) -> list[Run]:
    return [(f" {text} ", skin.badge(level)), (" ", skin.style("text"))]


def called(source: SourceStatus, picture: MonitorState) -> str:
    """A log without the folder that all lie in: the end of a path distinguishes it."""
    return plain(source.name.removeprefix(picture.folder), 40)


def judged_ago(picture: MonitorState, width: int, skin: ThemeStyles) -> list[Run]:
    """Age of the diagnosis if a busy run is judged rarely; in steps, so that it does not count up visibly."""
    if picture.unjudged_s is None or picture.past_s is not None:
        return []
    age = f"{picture.unjudged_s // _STEP_S * _STEP_S:.0f} s"
    return [(f"  as of {age} ago" if width >= NARROW else f"  {age} old", skin.style("muted"))]


def no_verdict(picture: MonitorState, snapshot: Diagnosis, width: int, skin: ThemeStyles) -> Row:
    if picture.dropped:
        return _hung_or_dead(picture, snapshot, width, skin)
    summary, cut_off = plain(snapshot.summary, 1000), skin.glyph("cut")
    unreadable = snapshot.assessment is Assessment.UNREADABLE  # that is known, however long nothing was written
    if picture.stale_s is not None and not picture.is_over and not unreadable:
        names = ", ".join(called(source, picture) for source in picture.sources[:3])
        open_end = f"  no end logged: {_FATES}" if picture.actual is not None else ""
        if snapshot.run.idle is not None:
            open_end = "  its last line reports no requests"
        shown = badge(skin, Level.NONE, f"{skin.glyph('stale')} SILENT")
        silence = f"no log output for {format_seconds(picture.stale_s)}"
        if snapshot.verdict is not None:
            return _before(snapshot.verdict, snapshot, (shown, silence, _since(picture, width)), width, skin)
        shown.append((silence + _since(picture, width), skin.style("stale")))
        return (*shown, (open_end, skin.style("text")), (f"  ({names})", skin.style("muted")))
    silent = [source for source in picture.sources if source.freshness is Freshness.STALE]
    if (late := overdue(picture, snapshot)) is not None and snapshot.assessment is not Assessment.UNREADABLE:
        shown = badge(skin, Level.WARNING, f"{skin.mark(Level.WARNING)} {Assessment.WATCH.value.upper()}")
        quiet = f"no output from {called(silent[0], picture)}" if silent else output_since(picture, snapshot)
        return (*shown, (late, skin.style("text")), (f"  {quiet}" if quiet else "", skin.style("muted")))
    if (unused_for := unused(picture)) is not None:
        shown = badge(skin, Level.NONE, f"{skin.glyph('stale')} IDLE?")
        last = moment_text(picture.unused_since or 0.0, picture.time_base)
        why = f": no output since {last}; a server without requests prints none"
        return (*shown, (unused_for, skin.style("stale")), (why, skin.style("text")))
    if (unrequested := idle(picture, snapshot, brief=width < NARROW)) is not None and not silent:
        shown = badge(skin, Level.NONE, f"{skin.glyph('idle')} IDLE")
        return (*shown, (unrequested, skin.style("text")), (f"  {ceased(picture)}", skin.style("muted")))
    if silent and not picture.is_over and not unreadable:  # its state is unknown: that is not green
        first = max(silent, key=lambda source: source.age_s or 0.0)
        more = f" and {len(silent) - 1} more" if len(silent) > 1 else ""
        return (
            *badge(skin, Level.NONE, f"{skin.glyph('stale')} SILENT"),
            (
                f"no output from {called(first, picture)}{more} for {format_seconds(first.age_s or 0.0)}",
                skin.style("stale"),
            ),
            (f"  otherwise: {_shortened(summary, max(20, width - 50), cut_off)}", skin.style("muted")),
        )
    if snapshot.run.state is Progress.FINISHED and snapshot.assessment in (Assessment.HEALTHY, Assessment.LEARNING):
        return _finished(snapshot, skin)
    if only_machines(picture):
        summary = picture.unfound or "no log lines yet: only hosts and GPUs are judged"
    elif snapshot.assessment is Assessment.HEALTHY:
        return _healthy(picture, summary, width, skin)
    elif snapshot.assessment in _CAREFUL:
        shown = badge(skin, Level.WARNING, f"{skin.mark(Level.WARNING)} {snapshot.assessment.value.upper()}")
        return (*shown, (_shortened(summary, width - row_cells(shown), cut_off), skin.style("text")))
    learning = f" {skin.glyph('loading')} LEARNING "
    return ((learning, skin.style("badge-info")), (f" {summary}", skin.style("text")))


def _before(
    verdict: Verdict, snapshot: Diagnosis, silence: tuple[list[Run], str, str], width: int, skin: ThemeStyles
) -> Row:
    """The silence, and the verdict until then; since when, and what it cost, if there is room."""
    shown, lasts, since = silence
    title, before = plain(verdict.title).upper(), "  before: "
    cost = f"  lost {format_share(verdict.lost_share)} of {wall(snapshot)}" if verdict.lost_s > 0 else ""
    room = width - row_cells(shown) - cells(before + title)
    lasts = lasts if cells(lasts) <= room else lasts.replace("no log output", "no output", 1)
    since = since if cells(lasts + since) <= room else ""
    cost = cost if cells(lasts + since + cost) <= room else ""
    level, text = skin.level(LEVELS[verdict.severity.value]), skin.style("text")
    return (*shown, (lasts + since, skin.style("stale")), (before, text), (title, level), (cost, text))


def _hung_or_dead(picture: MonitorState, snapshot: Diagnosis, width: int, skin: ThemeStyles) -> Row:
    """Servers with requests in hand whose output ended; behind that what was wrong with them before."""
    verdict, runs = snapshot.verdict, badge(skin, Level.NONE, f"{skin.glyph('stale')} SILENT")
    age, load = format_seconds(picture.past_s or 0.0), picture.dropped
    full, room = f"with {load}: hung or dead", width - row_cells(runs)
    since = _since(picture, width)
    texts = [
        f"no output for {age}{since}{',' if since else ''} {full}",
        f"no output for {age} {full}",
        f"hung or dead for {age} with {load}",
        f"{age} with {load}",
    ]
    runs.append((next((text for text in texts if cells(text) <= room), texts[-1]), skin.style("stale")))
    before = "" if verdict is None else f"  before: {plain(verdict.title)}"
    return (*runs, *([(before, skin.style("muted"))] if row_cells(runs) + cells(before) <= width else []))


def _since(picture: MonitorState, width: int) -> str:
    """The time of the last line, where there is room for it and a clock."""
    if picture.stale_s is None or width < NARROW or picture.time_base is not TimeBase.WALL:
        return ""
    last = picture.present - picture.stale_s
    day = f"{day_text(last, picture)} " if picture.dated else ""
    return f", since {day}{moment_text(last, picture.time_base)}"


def only_machines(picture: MonitorState) -> bool:
    """Nothing but hosts and GPUs has reported anything: the run is unknown."""
    if any(source.lines for source in picture.sources):
        return False
    return bool(picture.seen) and not any(one.reading.area in _OF_RUNS for one in picture.seen)


def _finished(snapshot: Diagnosis, skin: ThemeStyles) -> Row:
    """The result of a run that is over, and nothing was wrong with."""
    goal = snapshot.run.goal
    early = goal is not None and goal.early
    level, word = (Level.WARNING, "ENDED EARLY") if early else (Level.GOOD, "FINISHED")
    text = "" if goal is None else f"{goal.done:,.0f}"
    if goal is not None and goal.total:
        text = f"{text} of {goal.total:,.0f}"
    text += "" if goal is None else f" {plain(goal.unit, 20).removesuffix('s')}s"
    judged = snapshot.assessment is Assessment.HEALTHY
    took = f" in {wall(snapshot)}" if judged and snapshot.run.wall_s > 0 else ""
    found = "no bottleneck found" if judged else "too few lines to judge its pace"
    found += f"; {plain(', '.join(snapshot.run.without_end[:2]), 60)} logs no end" if snapshot.run.without_end else ""
    shown = badge(skin, level, f"{skin.mark(level)} {word}")
    return (*shown, (f"{text}{took}: {found}" if text else found, skin.style("text")))


def _healthy(picture: MonitorState, summary: str, width: int, skin: ThemeStyles) -> Row:
    good = badge(skin, Level.GOOD, f"{skin.mark(Level.GOOD)} HEALTHY")
    judged = judged_ago(picture, width, skin)
    room = width - row_cells(good) - row_cells(judged)
    return (*good, (_shortened(summary, room, skin.glyph("cut")), skin.style("text")), *judged)


def _shortened(summary: str, room: int, cut_off: str) -> str:
    """As many of the things that were observed as there is room for."""
    head, _, rest = summary.partition(": ")
    seen, observed, more = rest.partition(" observed")
    things, text = seen.split(", "), summary
    while observed and cells(text) > room and len(things) > 1:
        things.pop()
        text = f"{head}: {', '.join(things)} observed{more}"
    if cells(text) <= room:
        return text
    if observed:
        least = f"{head}{more}"
        return least if cells(least) <= room else head
    least, rest = halves(summary.partition(". ")[0], room, cut_off)
    return least if not rest or cells(least) > cells(head) + 2 else head


def wall(snapshot: Diagnosis) -> str:
    return short_duration(snapshot.run.wall_s)
