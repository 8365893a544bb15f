"""`perfmon status`: how a run is, in one short line."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Mapping
from typing import NamedTuple

from perfmon.core import ExitCode, InputError, PerfmonError, UsageError, plain
from perfmon.status import ENDS, State, read_state, read_states
from perfmon.textgraphics import UNICODE, Glyphs, compact_seconds, compact_value, glyphs_for, spark

from ._options import add_data_arguments, completes_files, read_config, seconds, several_runs, warn

DESCRIPTION = """\
Print one short line for the status bar of tmux or another program. If a monitor runs on the same SOURCEs, its current
state is printed; otherwise perfmon reads the last 4 MiB of each log. Without SOURCE it is the state of the run in this
folder, of several that of the worst one, with its name; for tmux, and where no logs are here, that of the only running
monitor.

For tmux:  set -g status-right '#(perfmon status --format tmux)'"""
EXAMPLE = "perfmon status logs/ --format tmux"
_RANKS = {"warning": 1, "critical": 2}
_LOOK = "600s"
_COMMON = ("log", "logs", "output", "outputs")
"""Names of folders that distinguish no run."""
_MOST_RUNS = 50
"""Runs of a folder whose logs are read: the newest."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    completes_files(
        parser.add_argument(
            "spec", metavar="SOURCE", nargs="*", help="the sources of the monitor, or logs (default: see above)"
        )
    )
    parser.add_argument(
        "--format", choices=["tmux", "plain", "json"], default="plain", help="output format (default: plain)"
    )
    parser.add_argument(
        "--max-age", metavar="TIME", type=seconds, default=10.0, help="ignore monitors whose state is older (10s)"
    )
    parser.add_argument(
        "--fail-on", choices=sorted(_RANKS), help="exit with 1 if the verdict has this severity or a higher one"
    )
    add_data_arguments(parser)


def run(args: argparse.Namespace) -> int:
    found = _Found(_of_monitor(args)) if args.spec else _of_this_folder(args) or _of_the_only_monitor(args)
    state, origin = found.state, found.origin
    if state is None:
        state, origin = _of_logs(args), "logs"
    print(_rendered(state, args.format, origin, found))
    down = state.progress in ("failed", "stalled")
    grave = args.fail_on and (down or _RANKS.get(state.severity, 0) >= _RANKS[args.fail_on])
    return ExitCode.FOUND if grave else ExitCode.DONE


class _Found(NamedTuple):
    """The state to print."""

    state: State | None
    name: str = ""
    """The run, where no SOURCE names it."""
    runs: int = 1
    bad: int = 0
    """Runs that need attention, of so many."""
    origin: str = "monitor"
    """`logs` where no monitor watches it."""


def _of_this_folder(args: argparse.Namespace) -> _Found | None:
    """The worst of the runs in this folder; None where it has none, and for tmux, which starts it anywhere."""
    if args.format == "tmux":
        return None
    from perfmon.sources import runs_in
    from perfmon.status import look, ordered, rows_of

    try:
        rows = rows_of(runs_in("."))[:_MOST_RUNS]
    except PerfmonError:
        return None
    config = read_config(args)
    seen = [row for row in ordered(look(row, config) for row in rows) if row.state is not None]
    if not seen or seen[0].state is None:
        return None
    bad = sum(row.severity in _RANKS for row in seen)
    name, state = seen[0].group.name, seen[0].state
    origin = "logs" if state.run == "observed" else "monitor"
    return _Found(state, "" if name == "." else name, len(seen), bad, origin)


def _of_monitor(args: argparse.Namespace) -> State | None:
    state = read_state(args.spec)
    return state if state is not None and state.age_s <= args.max_age else None


def _of_the_only_monitor(args: argparse.Namespace) -> _Found:
    states = [state for state in read_states() if state.age_s <= args.max_age]
    distinct = {state.specs: state for state in reversed(states)}
    if not distinct:
        raise InputError("no running monitor (start one, or name the logs: perfmon status logs/)")
    if len(distinct) > 1:
        which = "; ".join(" ".join(specs) for specs in sorted(distinct))
        raise UsageError(f"{len(distinct)} monitors are running; give the path of one: {which}")
    state = next(iter(distinct.values()))
    more = f" and {len(state.specs) - 1} more" if len(state.specs) > 1 else ""
    return _Found(state, f"{_short_name(state.specs[0])}{more}")


def _short_name(spec: str) -> str:
    """The end of a path, which distinguishes it; of other sources all that is no secret."""
    if "://" in spec or "@" in spec:
        from perfmon.core import without_secrets  # a status line loads as little as it can

        return without_secrets(spec)
    parts = [part for part in spec.split("/") if part]
    return spec if len(parts) < 2 else "/".join(parts[-2:] if parts[-1] in _COMMON else parts[-1:])


def _of_logs(args: argparse.Namespace) -> State:
    from perfmon.monitor import TAIL, glance
    from perfmon.sources.pollers import poll_once
    from perfmon.status import absolute, state_of_picture

    from ._remote import places_of, sort_specs

    wanted = sort_specs(args.spec)
    if wanted.inspector:
        raise UsageError(f"nccl={wanted.inspector[0]}: logs of NCCL Inspector need a running monitor: start one")
    if wanted.remote:
        raise UsageError(f"{wanted.remote[0].text}: remote logs need a running monitor: start one")
    polled = poll_once(wanted.pollers, lambda: places_of(wanted.local)) if wanted.pollers else ()
    sample = glance(wanted.local, read_config(args), _LOOK, polled)
    cut = f", of {sample.short} only the last {TAIL >> 20} MiB" if sample.short else ""
    left = f", skipped {sample.unread} compressed or recorded (perfmon snapshot reads them)" if sample.unread else ""
    warn(f"no running monitor for this path, read the logs instead{cut}{left}")
    if together := several_runs(wanted.local):
        warn(together)
    return state_of_picture(absolute(args.spec), sample.picture)._replace(run="observed")


def _rendered(state: State, form: str, origin: str, found: _Found) -> str:
    if form == "json":
        named = {"name": found.name} if found.name else {}
        return json.dumps({"schema": 1, "from": origin, **named, **state._asdict()}, allow_nan=False)
    line = FORMATS[form](state, glyphs_for(os.environ), found.name)
    return f"{line}; {found.bad} of {found.runs} runs need attention" if found.runs > 1 else line


# --- The state of a run in one short line, for tmux and other bars ---

COLUMNS = 8
_NAME = 40
_COLOURS: Mapping[str, str] = {
    "critical": "red",
    "warning": "yellow",
    "info": "cyan",
    "good": "green",
    "unknown": "colour244",
    "idle": "colour244",
}
_CAUSE = 60
"""Characters of the cause of a failure."""


def plain_line(state: State, glyphs: Glyphs = UNICODE, name: str = "") -> str:
    """`✗ FRONTEND-QUEUE 30.3s 16% lost ▁▁▃▁▆▇█ step 20/500 4m20s left`; with a name `✗ logs: FRONTEND-QUEUE …`."""
    parts = (_state_text(state, glyphs, name), _trend(state, glyphs), _progress(state), _cause(state))
    return " ".join(part for part in parts if part)


def tmux_line(state: State, glyphs: Glyphs = UNICODE, name: str = "") -> str:
    """The same, coloured as tmux's `status-right` has it; nothing of a log's text can be a format."""
    colour = _COLOURS[state.level]
    trend = _trend(state, glyphs).replace("#", "@")  # the highest level, in ASCII
    return f"#[fg={colour}]{_state_text(state, glyphs, name).replace('#', '')}#[default]" + (
        f" {trend}" if trend else ""
    )


FORMATS: Mapping[str, Callable[[State, Glyphs, str], str]] = {"tmux": tmux_line, "plain": plain_line}


_CONDITIONS: Mapping[str, str] = {
    "silent": "SILENT {}",
    "overdue": "WATCH no progress for {}",
    "idle": "IDLE {}",
    "unused": "IDLE or hung for {}",
    "healthy": "OK",  # only with proof
    "": "OK",
}
_OF_ENDS: Mapping[str, str] = {"failed": "run-failed", "stalled": "stall"}
"""The signature that means nothing but such an end."""


def _state_text(state: State, glyphs: Glyphs, name: str) -> str:
    mark = glyphs[state.level] + (f" {plain(name, _NAME)}:" if name else "")
    if state.run == "loading":
        return f"{mark} reading logs"
    if not state.observed:
        return f"{mark} no data"
    condition, seconds = state.condition
    words = _CONDITIONS.get(condition, condition.upper()).format(_close(compact_seconds(seconds)))
    if state.progress in ENDS:
        words = state.progress.upper()
    if not state.severity:
        return f"{mark} {words}" + (f" with {plain(state.dropped, _NAME)}" if state.dropped else "")
    shown = [words] if state.progress in ENDS or condition == "silent" else []
    if condition == "silent":
        shown.append(f"with {plain(state.dropped, _NAME)}, before:" if state.dropped else "before:")
    return " ".join([mark, *shown, *_verdict(state)])


def _verdict(state: State) -> list[str]:
    known = _OF_ENDS.get(state.progress) == state.signature
    parts = [] if known else [plain(" ".join(state.signature.upper().split()), _NAME)]
    if state.value is not None:
        parts.append(_close(compact_value(state.value, state.unit)))
    if state.lost_share > 0:
        share = f"{100 * state.lost_share:.0f}%"
        parts.append(f"{plain(state.lost_by, _NAME)} lost {share}" if state.lost_by else f"{share} lost")
    if state.firing > 1:
        parts.append(f"+{state.firing - 1}")
    return parts


def _progress(state: State) -> str:
    """The steps that are done, and the time left of a run that continues."""
    if state.done is None or not state.observed:
        return ""
    unit = plain(state.counted, 20).removesuffix("s")
    of = "" if state.total is None else f"/{state.total:.0f}"
    left = "" if state.left_s is None or state.left_s <= 0 else f" {_close(compact_seconds(state.left_s))} left"
    return f"{unit} {state.done:.0f}{of}{left}"


def _cause(state: State) -> str:
    """The cause of a failure in its own words."""
    return f"({plain(state.cause, _CAUSE)})" if state.progress == "failed" and state.cause else ""


def _close(text: str) -> str:
    return plain(text.replace(" ", ""), _NAME)


def _trend(state: State, glyphs: Glyphs) -> str:
    """The headline metric, the largest value of each interval."""
    values = [value for value in state.values if value is not None]
    if not values or not state.severity:
        return ""
    size = max(1, len(state.values) // COLUMNS)
    parts = [[v for v in state.values[at : at + size] if v is not None] for at in range(0, len(state.values), size)]
    shown = [max(part) if part else float("nan") for part in parts]
    return spark(shown, min(0.0, *values), max(values), glyphs=glyphs)
