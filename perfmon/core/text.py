"""Sanitises text from logs, which is hostile, for display."""

from __future__ import annotations

import re

ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\|$)"  # OSC and other strings
    r"|\x1b[ -/]*[0-~]"  # two-byte escapes
    r"|\x1b"
)
CONTROLS = re.compile(
    r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff\U000e0000-\U000e007f"
    # no cells of their own, but terminals disagree: what follows them would stand elsewhere
    r"\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\ufff9-\ufffb\U000e0100-\U000e01ef]"
)


def plain(text: str, limit: int = 500) -> str:
    """`text` without escape sequences, control or direction characters, tabs as spaces, at most `limit` characters."""
    if "\x1b" in text:
        text = ESCAPES.sub("", text)
    text = CONTROLS.sub("", text.replace("\t", "    "))
    return text if len(text) <= limit else text[: limit - 1] + "…"
