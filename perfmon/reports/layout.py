"""Text layout of reports: columns, tables, wording, and escaping for Markdown."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from rich.cells import cell_len, set_cell_size

from perfmon.core import (
    UNACCOUNTED,
    Progress,
    counted,
    format_bytes,
    format_fine,
    format_seconds,
    format_share,
    format_value,
    plain,
    plural_of,
)
from perfmon.diagnosis import Diagnosis, Finding, Goal, HypothesisState, MetricStats, RunInfo, SourceSummary, Verdict
from perfmon.textgraphics import fit

T = TypeVar("T")
LEAST_SHARE = 0.0005
"""Of the time: less is shown as 0 %."""

# --- Columns of plain text: widths as a terminal shows them, padding, wrapping, tables and bars ---

WIDTH = 80
"""Columns that prose keeps to: a pipe and every terminal get the same bytes."""
_SHOWN_NAMES = 24


def one_line(text: str, limit: int = 500) -> str:
    """`text` as words on one line, without escape sequences and controls, at most `limit` characters."""
    return plain(" ".join(plain(" ".join(text[: 8 * limit].splitlines()), 8 * limit).split()), limit)


def fit_end(text: str, columns: int) -> str:
    """`text` cut to at most `columns` cells from the left: the end of a path is what matters."""
    text = plain(text[-4 * columns :])
    while cell_len(text) > columns:
        text = "…" + text[2:]
    return text


def wrap(text: str, indent: str = "", lead: str | None = None, rows: int = 0) -> list[str]:
    """Lines of at most WIDTH cells, broken between words; a word wider than a line is broken inside.

    `lead` begins the first line in place of `indent`; at most `rows` lines are kept (0: all).
    """
    room = WIDTH - cell_len(indent)
    lines = [indent if lead is None else lead]
    fresh = True
    for word in one_line(text, 4000).split():
        for piece in _pieces(word, room):
            joined = f"{lines[-1]}{piece}" if fresh else f"{lines[-1]} {piece}"
            if cell_len(joined) <= WIDTH:
                lines[-1] = joined
            else:
                lines.append(indent + piece)
            fresh = False
    if rows and len(lines) > rows:
        lines = [*lines[: rows - 1], set_cell_size(lines[rows - 1], WIDTH - 1).rstrip() + "…"]
    return lines


def _pieces(word: str, room: int) -> list[str]:
    pieces = []
    while cell_len(word) > room:
        head = set_cell_size(word, room).rstrip() or word[:1]
        pieces.append(head)
        word = word[len(head) :]
    return [*pieces, word]


def table(rows: Sequence[Sequence[str]], left: frozenset[int] = frozenset({0}), caps: Sequence[int] = ()) -> list[str]:
    """Rows as aligned columns, two spaces between them; `left` columns are flush left, `caps` limits their widths."""
    count = max((len(row) for row in rows), default=0)
    limits = [caps[at] if at < len(caps) else WIDTH for at in range(count)]
    widths = [
        min(limits[at], max((cell_len(plain(row[at], 400)) for row in rows if at < len(row)), default=0))
        for at in range(count)
    ]
    return [
        "  ".join(fit(cell, widths[at], right=at not in left) for at, cell in enumerate(row)).rstrip() for row in rows
    ]


# --- Wording of figures, levels and confidence, shared by all reports ---

STATISTICS = ("count", "mean", "stdev", "min", "p50", "p90", "p95", "p99", "max")
CONDITION_SIGNS = {True: "●", False: "○", None: "?"}
"""A condition that is met, is not, or was not observed: of a fault that is no good news."""


def weighed(one: HypothesisState) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Texts that support a hypothesis, contradict it, or were not observed, each with its sign; no empty ones."""
    parts = ((True, one.supporting), (False, one.contradicting), (None, one.unseen))
    return ((CONDITION_SIGNS[held], texts) for held, texts in parts if texts)


def amount(value: float | None, unit: str) -> str:
    """A metric's value for people, `–` where there is none."""
    return "–" if value is None or not math.isfinite(value) else format_value(value, unit)


def figure(value: float | None, unit: str) -> str:
    """A value for a narrow column: units longer than `ms`, `s` and `%` are left to the column's name."""
    if value is None or not math.isfinite(value):
        return "–"
    if unit in ("ms", "s", "%"):
        return format_fine(value, unit)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def fields_text(fields: Mapping[str, float | str] | Mapping[str, str]) -> str:
    """`name=value name=value`, numbers short."""
    return " ".join(
        f"{one_line(name, 40)}={value:.10g}"
        if isinstance(value, float | int)
        else f"{one_line(name, 40)}={one_line(value, 120)}"
        for name, value in fields.items()
    )


def held_text(finding: Finding) -> str:
    """`3 of 3 conditions`, or the share where a finding lists none."""
    if not finding.conditions:
        return f"confidence {format_share(finding.confidence)}"
    held = sum(condition.held is True for condition in finding.conditions)
    count = len(finding.conditions)
    return f"{held} of {count} condition{'s' * (count != 1)}"


def verdict_line(snapshot: Diagnosis, verdict: Verdict) -> str:
    """Cost and confidence of the verdict in one line."""
    finding = snapshot.verdict_finding
    held = held_text(finding) if finding else f"confidence {format_share(verdict.confidence)}"
    if verdict.lost_s <= 0:
        return held
    lost, wall = format_seconds(verdict.lost_s), format_seconds(snapshot.run.wall_s)
    whose = f", {verdict.lost_by}" if verdict.lost_by else ""
    return f"{lost} of {wall} lost ({format_share(verdict.lost_share)}{whose}) · {held}"


def finding_line(finding: Finding) -> str:
    """Count, time and cost of a finding in one line."""
    first, last = format_seconds(finding.first_s), format_seconds(finding.last_s)
    when = f"at {first}" if finding.first_s == finding.last_s else f"{first} to {last}"
    parts = [f"count {finding.count}", when]
    if finding.lost_s > 0:
        parts.append(f"{format_seconds(finding.lost_s)} lost ({format_share(finding.lost_share)})")
    parts.append(held_text(finding))
    if finding.state != "firing":
        parts.append(finding.state)
    return " · ".join(parts)


_GOING_ON = (Progress.STARTING, Progress.RUNNING)


def state_text(run: RunInfo, *, live: bool = False) -> str:
    """The state of a run; of complete logs only that of the last line is known where it is one that continues."""
    over = run.state in _GOING_ON and not live
    if over and run.quiet_s is not None:
        return f"no end logged, no output for {format_seconds(run.quiet_s)}"
    return f"{run.state.value} at the last line, no end logged" if over else run.state.value


def run_line(run: RunInfo, *, live: bool = False) -> str:
    """Summary of the input in one line."""
    count = len(run.sources)
    is_shown = run.state is not Progress.UNKNOWN and any(source.events for source in run.sources)
    state = f"{state_text(run, live=live)} · " if is_shown else ""
    size, lines = sum(source.bytes for source in run.sources), sum(source.lines for source in run.sources)
    base = {"wall": "", "monotonic": " by a monotonic clock", "none": ""}[run.time_base.value]
    observed = "no timestamps" if run.time_base == "none" else f"{format_seconds(run.wall_s)} observed{base}"
    if run.past_clock:
        observed = f"no timestamps after {format_seconds(run.wall_s)}"
    going = f" · {goal_text(run.goal)}" if run.goal is not None else ""
    if run.saved_step is not None and (run.state not in _GOING_ON or run.quiet_s is not None):
        going += f" · last checkpoint at step {run.saved_step:,.0f}"
    read = f"{lines:,} {plural_of(lines, 'line')}, {format_bytes(size)}"
    return f"{state}{count} log{'s' * (count != 1)} · {observed} · {read}{going}"


def goal_text(goal: Goal) -> str:
    """`33 of 15,625 steps, 7d 10h to go`; `at step 33` where no total is logged."""
    again = f" in pass {goal.passes}" if goal.passes > 1 else ""
    if goal.total is None:
        return f"at {one_line(goal.unit.removesuffix('s'), 20)} {goal.done:,.0f}{again}"
    unit = goal.unit if goal.unit.endswith("s") or goal.total == 1 else f"{goal.unit}s"
    left = f", about {format_seconds(goal.remaining_s)} left" if goal.remaining_s else ""
    return f"{goal.done:,.0f} of {goal.total:,.0f} {one_line(unit, 20)}{again}{left}"


def limits_text(metric: MetricStats) -> tuple[str, str, str]:
    """Ranges of good, warning and critical; dashes without thresholds. Low values are bad if critical < good."""
    good, critical, unit = metric.good, metric.critical, metric.unit
    if good is None and critical is None:
        return "–", "–", "–"
    if good is None or critical is None:
        limit = amount(good if critical is None else critical, unit)
        return (f"< {limit}", f"≥ {limit}", "–") if critical is None else (f"≤ {limit}", "–", f"> {limit}")
    low, high = amount(min(good, critical), unit), amount(max(good, critical), unit)
    return (
        (f"< {low}", f"{low} – {high}", f"> {high}")
        if good <= critical
        else (f"> {high}", f"{low} – {high}", f"< {low}")
    )


def loss_notes(sources: Iterable[SourceSummary], folder: str = "") -> list[str]:
    """Lost and unexpected data, a line per source and note; names are shown without `folder`."""
    return [
        f"{one_line(source.spec.removeprefix(folder), 200)}: {one_line(note.removeprefix(f'{source.spec}: '))}"
        for source in sources
        for note in source.notes
    ]


def clock_notes(snapshot: Diagnosis, folder: str = "") -> list[str]:
    """Clock offsets of servers relative to their clients, and samples dropped to save memory."""
    notes = []
    for offset in snapshot.clock_offsets:
        shift = f"clock {offset.offset_s:+.3f} s against the client's, ± {format_seconds(offset.uncertainty_s)}"
        wrong = "; estimates disagree, a clock was stepped" if offset.contradictory else ""
        name = one_line(offset.source.removeprefix(folder), 200)
        notes.append(f"{name}: {shift} ({counted(offset.traces, 'update')}){wrong}")
    if snapshot.skew_detected and not any(offset.contradictory for offset in snapshot.clock_offsets):
        notes.append("the clocks of the logs disagree: times across logs are uncertain")
    notes.extend(f"{count:,} {one_line(kind, 60)} thinned to save memory" for kind, count in snapshot.dropped.items())
    return notes


def listing(title: str, items: Sequence[str], lead: str = "  ", most: int | None = None) -> list[str]:
    """The first `most` items under a title, each wrapped, and how many more there are; nothing without items."""
    lines = [line for item in items[:most] for line in wrap(item, "    ", lead)]
    more = [f"  … {len(items) - most} more"] if most is not None and len(items) > most else []
    return [title, *lines, *more] if items else []


def name_list(intro: str, names: Sequence[str]) -> list[str]:
    """The first names of many in a wrapped sentence that points to --json for all of them."""
    more = f", … {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
    shown = ", ".join(one_line(name, 40) for name in names[:_SHOWN_NAMES])
    return wrap(f"{intro}: {shown}{more} (see --json)", "    ", "  ") if names else []


# --- Log text inside Markdown: nothing in it may become markup, a link, HTML, a cell border or the end of a fence ---

_SPECIAL = re.compile(r"[\\`*\[\]|~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_FENCES = re.compile(r"`{3,}")
_STARTS = re.compile(r"^(?:[-+=:#]|\d{1,9}(?=[.)](?:\s|$)))")
_LINKS = re.compile(r"(?i)(https?|ftp|mailto|xmpp|www)([:.])")
_NAMED = re.compile(r"@(?=[A-Za-z0-9_])|#(?=\d)|\b(?i:GH)-(?=\d)")
"""Text that GitHub turns into a mention, an address or a reference to an issue."""
_APART = "&#8203;"
"""Invisible, and no escape would do: names are looked for once escapes are gone."""
_CELL = 160


class Markup(str):
    """Text that is Markdown already: nothing of it comes from a log, or it was made safe."""

    __slots__ = ()


def code(text: str, limit: int = 200) -> Markup:
    """`text` as a code span; backticks and cell borders in it are left out, spaces stay as they are."""
    text = plain(" ".join(text[: 8 * limit].splitlines()), limit).replace("`", "").replace("|", "")
    return Markup(f"`{text}`" if text.strip() else "")


def inline(text: str, limit: int = 1000) -> str:
    """Text for a paragraph, a heading or a list item, on one line."""
    text = one_line(text, limit).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = _SPECIAL.sub(r"\\\g<0>", text)
    text = _LINKS.sub(r"\1\\\2", text)  # no link: where it leads is the log's choice
    return _STARTS.sub(_unlisted, _NAMED.sub(rf"\g<0>{_APART}", text))


def _unlisted(hit: re.Match[str]) -> str:
    """The first characters of a text, which would begin a list, a rule or a heading."""
    return f"{hit[0]}{_APART}" if hit[0].isdigit() else f"\\{hit[0]}"


def markdown_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], right: frozenset[int] = frozenset()
) -> list[str]:
    """A GitHub table of plain texts or `Markup`; columns in `right` are flush right."""
    rule = "|".join("---:" if at in right else "---" for at in range(len(head)))
    return [_row(head), f"|{rule}|", *(_row(row) for row in rows)]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell if isinstance(cell, Markup) else inline(cell, _CELL) for cell in cells) + " |"


def section(title: str, lines: Sequence[str]) -> list[str]:
    """`lines` under a heading; nothing without lines."""
    return [f"## {title}", "", *lines] if lines else []


def bullets(items: Sequence[str], most: int | None = None) -> list[str]:
    """The first `most` items as a list, and how many more there are."""
    more = [f"- … and {len(items) - most} more"] if most is not None and len(items) > most else []
    return [*(f"- {inline(item)}" for item in items[:most]), *more]


def table_section(
    title: str, head: Sequence[str], items: Sequence[T], row: Callable[[T], Sequence[str]], most: int,
    right: Iterable[int],
) -> list[str]:  # fmt: skip
    """A heading and a table with a row for each of the first `most` items; nothing without items."""
    more = ["", f"… and {len(items) - most} more."] if len(items) > most else []
    table = markdown_table(head, map(row, items[:most]), frozenset(right))
    return section(title, [*table, *more] if items else [])


def breakdown_table(snapshot: Diagnosis) -> list[str]:
    """The time by cause."""
    shown = (entry for entry in snapshot.ledger if entry.cause != UNACCOUNTED or entry.share >= LEAST_SHARE)
    rows = [(entry.cause, format_seconds(entry.lost_s), format_share(entry.share)) for entry in shown]
    return markdown_table(("cause", "time", "share"), rows, frozenset({1, 2}))


def chain_lines(verdict: Verdict) -> list[str]:
    """The signatures from the symptom to the root cause, when there are several."""
    chain = " ← ".join(inline(link, 80) for link in verdict.chain)
    return ["", f"Chain: {chain}"] if len(verdict.chain) > 1 else []


def fenced(lines: Iterable[str]) -> list[str]:
    """A code block whose fence is longer than any run of backticks in it."""
    body = [plain(" ".join(line[:8000].splitlines()), 1000) for line in lines]
    longest = max((len(run) for line in body for run in _FENCES.findall(line)), default=2)
    fence = "`" * (longest + 1)
    return [f"{fence}text", *body, fence]


def most_critical_first(metric: MetricStats) -> tuple[bool, float, float, str]:
    """Key of an order of metrics: by the shares of samples that are critical or a warning, then by name."""
    shares = metric.band_shares
    return metric.band is None, -shares.get("critical", 0.0), -shares.get("warning", 0.0), metric.name
