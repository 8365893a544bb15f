"""Reports of profiler traces as text, Markdown and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from perfmon.core import format_seconds, format_share, plain
from perfmon.diagnosis import Finding
from perfmon.profile import Gap, GpuUse, GroupUse, Profile

from .json_report import finding_document, json_object
from .layout import inline, markdown_table, one_line, table, wrap

_SHOWN_GPUS, _SHOWN_RANGES, _SHOWN_GAPS, _SHOWN_NOTES, _SHOWN_GROUPS = 32, 8, 5, 10, 8
_IDLE_IS_FEW, _SHOWN_SHARE = 0.05, 0.01
_HEAD = ("rank", "GPU", "traced", "busy", "compute", "communication", "copies", "idle", "longest gap")
_REASON_HEAD = ("rank", "GPU", "host wait", "kernel wait", "other", "sync stall", "data loading", "launch queue")
_RANGE_HEAD = ("range", "count", "mean", "between: mean", "longest")
_GROUP_HEAD = ("process group", "ranks", "collectives", "a rank in them", "of that waiting", "for rank")
_GAP_HEAD = ("rank", "GPU", "at", "gap", "host in the gap")

# --- JSON ---


def profile_document(found: Profile) -> dict[str, Any]:
    """The `--json` document, schema 1; times are microseconds."""
    return json_object(
        {
            "schema": 1,
            "events": found.events,
            "gpus": [_gpu(use) for use in found.gpus],
            "ranges": [
                {
                    "name": one.name, "count": one.count, "total_us": one.total / 1e3,
                    "between_us": one.between / 1e3, "longest_between_us": one.longest_between / 1e3,
                }
                for one in found.ranges
            ],
            "groups": [
                {
                    "name": one.name or None, "ranks": one.ranks, "collectives": one.count, "total_us": one.total / 1e3,
                    "waiting_us": one.waiting / 1e3, "waits_for": one.last, "waits_for_share": one.share,
                }
                for one in found.groups
            ],
            "partial": found.partial,
            "notes": found.notes,
            "findings": [finding_document(finding) for finding in found.findings],
        }
    )  # fmt: skip


def _gpu(use: GpuUse) -> dict[str, Any]:
    return {
        "file": use.file,
        "rank": use.rank,
        "device": use.device,
        "product": use.product,
        "span_us": use.span / 1e3,
        "busy_us": use.busy / 1e3,
        "idle_us": use.idle / 1e3,
        "idle_pct": _percent(use.idle, use.span),
        "compute_pct": _percent(use.compute, use.span),
        "communication_pct": _percent(use.communication, use.span),
        "communication_overlapped_pct": _percent(use.overlapped, use.communication),
        "copy_pct": _percent(use.copy, use.span),
        "idle_us_by": {
            name: part / 1e3 if use.launched else None
            for name, part in (("host_wait", use.host_wait), ("kernel_wait", use.kernel_wait), ("other", use.other))
        },
        "streams": {
            str(stream): {"host_wait": host / 1e3, "kernel_wait": kernel / 1e3, "other": other / 1e3}
            for stream, (host, kernel, other) in use.streams.items()
        },
        "sync_stall_us": use.sync_stall / 1e3,
        "pageable_h2d_bytes": use.pageable_bytes,
        "h2d_bytes": use.copied_bytes,
        "dataloader_pct": None if use.loader is None else _percent(use.loader, use.stepped),
        "launch_queue": {"mean": use.queue_mean, "max": use.queue_most},
        "long_gaps": use.long_gaps,
        "long_gaps_us": use.long_gaps_ns / 1e3,
        "gaps": [
            {
                "start_us": gap.start / 1e3, "end_us": gap.end / 1e3,
                "host": [{"name": name, "us": length / 1e3} for name, length in gap.host],
            }
            for gap in use.gaps
        ],
    }  # fmt: skip


def _percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 0.0


# --- Text and Markdown ---


def profile_text(found: Profile) -> str:
    """The report for standard output."""
    lines = [*wrap(_head(found))]
    for finding, count in _shown_findings(found):
        lines += ["", *wrap(one_line(finding.title), "  ", f"{finding.severity.value.upper()}  ")]
        lines += wrap(one_line(_sentence(finding, count)), "  ", "  ")
        for advice in finding.advice:
            lines += wrap(one_line(advice), "    ", "  → ")
    for head, rows, left in _tables(found):
        lines += ["", *table([head, *rows], left)]
    if len(found.gpus) > _SHOWN_GPUS:
        lines.append(f"… and {len(found.gpus) - _SHOWN_GPUS} more GPUs")
    notes = [line for note in found.notes[:_SHOWN_NOTES] for line in wrap(one_line(note), "    ", "  ! ")]
    if len(found.notes) > _SHOWN_NOTES:
        notes.append(f"  ! and {len(found.notes) - _SHOWN_NOTES} more notes")
    return "\n".join([*lines, *(["", *notes] if notes else [])]) + "\n"


def profile_markdown(found: Profile) -> str:
    """The report as Markdown."""
    lines = ["# Profile", "", inline(_head(found)) + "."]
    for finding, count in _shown_findings(found):
        title = f"**{inline(finding.title)}** ({finding.severity.value})"
        lines += ["", f"{title}: {inline(_sentence(finding, count))}", ""]
        lines += [f"- {inline(advice)}" for advice in finding.advice]
    for head, rows, _ in _tables(found):
        lines += ["", *markdown_table(head, [[inline(cell) for cell in row] for row in rows])]
    lines += ["", *(f"- {inline(one_line(note))}" for note in found.notes[:_SHOWN_NOTES])]
    if len(found.notes) > _SHOWN_NOTES:
        lines.append(f"- and {len(found.notes) - _SHOWN_NOTES} more notes")
    return "\n".join(lines) + "\n"


def _head(found: Profile) -> str:
    span = sum(use.span for use in found.gpus)
    idle = sum(use.idle for use in found.gpus) / span if span else 0.0
    count = f"{len(found.gpus)} GPUs" if len(found.gpus) > 1 else "1 GPU"
    count += " (partial: see the notes)" if found.partial else ""
    head = f"{count}, {found.events:,} events: idle {format_share(idle)} of the time"
    if idle >= _IDLE_IS_FEW:
        head += _idle_by(found, idle)
    if not found.findings:
        return head if idle >= _IDLE_IS_FEW else f"{head}; the GPUs are kept busy"
    title = found.findings[0].title
    return f"{head}; {title if title.startswith('GPU') else title.lower()}"


def _idle_by(found: Profile, idle: float) -> str:
    """The idle time by reason, where launches show it."""
    span = sum(use.span for use in found.gpus)
    if not all(use.launched for use in found.gpus):
        return ""
    shares = {
        "waiting for the next batch": sum(use.span * (use.whole.data or 0.0) for use in found.gpus) / span,
        "stalls of the host": sum(use.span * use.whole.stall for use in found.gpus) / span,
        "short late launches": sum(use.span * use.whole.launch for use in found.gpus) / span,
    }
    shares["for other reasons"] = idle - sum(shares.values())
    shown = sorted(((share, words) for words, share in shares.items() if share >= _SHOWN_SHARE), reverse=True)
    return f" ({', '.join(f'{format_share(share)} {words}' for share, words in shown)})"


def _shown_findings(found: Profile) -> list[tuple[Finding, int]]:
    """The most expensive finding of each signature, and how many GPUs have it."""
    counts = Counter(finding.signature for finding in found.findings)
    worst: dict[str, Finding] = {}
    for finding in sorted(found.findings, key=lambda one: -one.lost_s):
        worst.setdefault(finding.signature, finding)
    shown = [one for one in worst.values() if not one.explained_by or one.explained_by not in worst]
    return [(finding, counts[finding.signature]) for finding in shown]


def _sentence(finding: Finding, count: int) -> str:
    lost = f"; {_time(finding.lost_s * 1e9)} lost ({format_share(finding.lost_share)})" if finding.lost_s else ""
    others = f" (and {count - 1} more like it)" if count > 1 else ""
    return f"{finding.sentence}{lost}{others}"


def _tables(found: Profile) -> list[tuple[Sequence[str], list[list[str]], frozenset[int]]]:
    shown = found.gpus[:_SHOWN_GPUS]
    tables: list[tuple[Sequence[str], list[list[str]], frozenset[int]]] = [
        (_HEAD, [_use_row(use) for use in shown], frozenset({1})),
        (_REASON_HEAD, [_reason_row(use) for use in shown], frozenset({1})),
    ]
    gaps = sorted(((gap, use) for use in shown for gap in use.gaps), key=lambda row: row[0].start - row[0].end)
    if gaps:
        tables.append((_GAP_HEAD, [_gap_row(gap, use) for gap, use in gaps[:_SHOWN_GAPS]], frozenset({1, 4})))
    if found.groups:
        tables.append((_GROUP_HEAD, [_group_row(one) for one in found.groups[:_SHOWN_GROUPS]], frozenset({0, 1})))
    if found.ranges:
        rows = [
            [
                plain(one.name, 40), f"{one.count:,}", _time(one.total / one.count),
                _time(one.between / one.pairs) if one.pairs else "", _time(one.longest_between),
            ]
            for one in found.ranges[:_SHOWN_RANGES]
        ]  # fmt: skip
        tables.append((_RANGE_HEAD, rows, frozenset({0})))
    return tables


def _use_row(use: GpuUse) -> list[str]:
    parts = (use.busy, use.compute, use.communication, use.copy, use.idle)
    longest = max((gap.end - gap.start for gap in use.gaps), default=0)
    return [
        _rank(use), _name(use), _time(use.span), *(format_share(part / use.span if use.span else 0) for part in parts),
        _time(longest) if longest else "",
    ]  # fmt: skip


def _reason_row(use: GpuUse) -> list[str]:
    loader = "" if use.loader is None or not use.stepped else format_share(use.loader / use.stepped)
    if not use.launched:
        return [_rank(use), _name(use), *["unknown"] * 3, _time(use.sync_stall), loader, "unknown"]
    reasons = [_time(part) for part in (use.host_wait, use.kernel_wait, use.other, use.sync_stall)]
    return [
        _rank(use),
        _name(use),
        *reasons,
        loader,
        f"{max(0.0, round(use.queue_mean, 1)):,g} (max {use.queue_most:,})",
    ]


def _gap_row(gap: Gap, use: GpuUse) -> list[str]:
    host = ", ".join(f"{plain(name, 40)} {_time(length)}" for name, length in gap.host[:2])
    return [_rank(use), _name(use), _time(gap.start), _time(gap.end - gap.start), host]


def _group_row(one: GroupUse) -> list[str]:
    ranks = ", ".join(map(str, one.ranks))
    return [
        plain(one.name or "not named", 30), plain(ranks, 24), f"{one.count:,}", _time(one.total), _time(one.waiting),
        f"{one.last} ({format_share(one.share)})",
    ]  # fmt: skip


def _rank(use: GpuUse) -> str:
    return "" if use.rank is None else str(use.rank)


def _name(use: GpuUse) -> str:
    return plain(f"{use.device} {use.product}".strip(), 28)


def _time(nanoseconds: float) -> str:
    if nanoseconds < 1e9:
        return f"{nanoseconds / 1e3:,.0f} us" if nanoseconds < 1e6 else f"{nanoseconds / 1e6:,.1f} ms"
    return format_seconds(nanoseconds / 1e9)
