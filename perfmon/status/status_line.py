"""The state of a run in one short line, for tmux and other bars."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from perfmon.core import plain
from perfmon.textgraphics import UNICODE, Glyphs, compact_seconds, compact_value, spark

from .state_file import State

COLUMNS = 8
_NAME = 40
_COLOURS: Mapping[str, str] = {
    "critical": "red",
    "warning": "yellow",
    "info": "cyan",
    "good": "green",
    "unknown": "colour244",
}


def plain_line(state: State, glyphs: Glyphs = UNICODE) -> str:
    """`✗ FRONTEND-QUEUE 30.3s 16% lost ▁▁▃▁▆▇█`."""
    return " ".join(part for part in (_state_text(state, glyphs), _trend(state, glyphs)) if part)


def tmux_line(state: State, glyphs: Glyphs = UNICODE) -> str:
    """The same, coloured as tmux's `status-right` has it; nothing of a log's text can be a format."""
    colour = _COLOURS[_level(state)]
    trend = _trend(state, glyphs).replace("#", "@")  # the highest level, in ASCII
    return f"#[fg={colour}]{_state_text(state, glyphs).replace('#', '')}#[default]" + (f" {trend}" if trend else "")


FORMATS: Mapping[str, Callable[[State, Glyphs], str]] = {"tmux": tmux_line, "plain": plain_line}


def _level(state: State) -> str:
    if state.stale_s is not None or not state.observed:
        return "unknown"
    if state.severity in _COLOURS:
        return state.severity
    careful = {"watch": "warning", "learning": "unknown", "unreadable": "unknown"}
    return "good" if state.progress == "finished" else careful.get(state.assessment, "good")


def _state_text(state: State, glyphs: Glyphs) -> str:
    mark = glyphs[_level(state)]
    if state.run == "loading":
        return f"{mark} reading logs"
    if not state.observed:
        return f"{mark} no data"
    stale = [] if state.stale_s is None else [f"STALE {_close(compact_seconds(state.stale_s))}"]
    if state.severity:
        return " ".join([mark, *stale, *_verdict(state)])
    return " ".join([mark, *(stale or [_quiet_word(state)])])


def _quiet_word(state: State) -> str:
    """State of a run without a verdict: OK only with proof."""
    if state.progress == "finished":
        return "FINISHED"
    return {"healthy": "OK", "": "OK"}.get(state.assessment, state.assessment.upper())


def _verdict(state: State) -> list[str]:
    parts = [plain(" ".join(state.signature.upper().split()), _NAME)]
    if state.value is not None:
        parts.append(_close(compact_value(state.value, state.unit)))
    if state.lost_share > 0:
        parts.append(f"{100 * state.lost_share:.0f}% lost")
    if state.firing > 1:
        parts.append(f"+{state.firing - 1}")
    return parts


def _close(text: str) -> str:
    return plain(text.replace(" ", ""), _NAME)


def _trend(state: State, glyphs: Glyphs) -> str:
    """The headline metric, the largest value of each stretch."""
    values = [value for value in state.values if value is not None]
    if not values or not state.severity:
        return ""
    size = max(1, len(state.values) // COLUMNS)
    parts = [[v for v in state.values[at : at + size] if v is not None] for at in range(0, len(state.values), size)]
    shown = [max(part) if part else float("nan") for part in parts]
    return spark(shown, min(0.0, *values), max(values), glyphs=glyphs)
