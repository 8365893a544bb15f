"""What a log says when it, or the run, ends."""

from __future__ import annotations

import re

_WORDS = (
    r"(?<![.\w])(?:finished|completed?|shut(?:ting)? ?down|exit(?:ed|ing)?|stopp(?:ed|ing)|terminat(?:ed|ing)|"
    r"goodbye|all done|train_runtime)\b"
)
_GOES_ON = (
    r"(?<!\bto )(?<!\bbe )(?<!\bnot )(?<!\bcollection )(?<!\bevaluation )(?<!\bcheckpoint )(?<!\bstep )(?<!\bbatch )"
)
"""What stands before these words in lines of a run that goes on: it waits for something to complete, or a part has."""
FAREWELL = re.compile(rf"(?i){_GOES_ON}{_WORDS}(?! [a-z]+ing\b)")
RUN_OVER = re.compile(
    r"(?i)\b(?:orchestrator|train(?:er|ing)|run|job|experiment)\b(?! (?:step|epoch|batch))[^.,;:\d]{0,24}\b"
    rf"{_GOES_ON}(?:finished|completed?|done|stopped|terminated|shut(?:ting)? ?down|exit(?:ed|ing)?)\b"
    r"|\b(?:total )?(?:training|run|elapsed|execution|wall) ?time\b[^\d\n]{0,24}"
    r"\d+(?::\d\d|(?:\.\d+)? ?(?:min|h|hours?)\b)"
    r"|\boptimi[sz]ation (?:complete[d]?|finished)\b|\bran for \d[\d.]* ?(?:m|min|h|hours?)\b"
    r"|\bfinished (?:normally|successfully)\b"
)
