"""`perfmon analyze --explain-formats`: what each log was taken for, and which patterns recognised its lines."""

from __future__ import annotations

from perfmon.rules.wording import plural_of
from perfmon.snapshot import Snapshot, SourceInfo
from perfmon.units import format_bytes

from .layout import fit, one_line, table, wrap
from .wording import percent

_UNKNOWN = "no line is recognised: `perfmon formats learn LOG` proposes a format (see docs/formats.md)"


def render(snapshot: Snapshot) -> str:
    """One paragraph a log; ends with a newline."""
    parts = ["\n".join(_source(source)) for source in snapshot.run.sources]
    return "\n\n".join(parts or ["no logs were read"]) + "\n"


def _source(source: SourceInfo) -> list[str]:
    unrecognised = max(0, source.lines - source.events)
    share = f", {percent(unrecognised / source.lines)} of lines not recognised" if source.lines else ""
    lines = [
        *wrap(source.spec),
        f"  format  {fit(source.format, 70)}",
        f"  lines   {source.lines:,} ({format_bytes(source.bytes)}): {source.events:,} recognised{share}",
    ]
    if source.lines and not source.events:
        lines += wrap(_UNKNOWN, "  ")
    if source.skipped or source.errors:
        cut = f"{source.skipped:,} {plural_of(source.skipped, 'line')} with implausible or truncated values"
        lines.append(f"  unusable {cut}, {source.errors:,} {plural_of(source.errors, 'read error')}")
    counts = sorted(((name, count) for name, count in source.patterns.items() if count), key=lambda item: -item[1])
    lines += [
        f"    {row}" for row in table([(f"{count:,}", one_line(name, 60)) for name, count in counts], frozenset({1}))
    ]
    return lines + [line for note in source.notes for line in wrap(note, "    ", "  ! ")]
