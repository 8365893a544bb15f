"""What a signature holds once its TOML file was read and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from perfmon.model import Severity

from .conditions.base import Condition

Kind = Literal["failure", "bottleneck", "fault", "quality", "note"]
"""failure: the run ended of it, always the verdict; bottleneck: costs time; fault: something does not happen;
quality: spoils the result, not the speed; note: told, never the verdict."""

KINDS: tuple[Kind, ...] = ("failure", "bottleneck", "fault", "quality", "note")


@dataclass(frozen=True, slots=True)
class Subject:
    """What a signature looks at, one by one: spans of a kind, samples of a metric, or stretches of silence."""

    kind: Literal["span", "metric", "mark", "quiet", "absence", "failure", "open", "limit"]
    name: str
    """Span kind, metric or mark; for quiet `all` (every log) or `one`; for absence the span kind that is missing; for a
    failure the causes of a death, joined by |; for open the kind of spans that have begun and not ended; for limit what
    is short: time."""
    also: bool = False
    """Looked at too when an earlier subject has data but gives no finding."""
    sentence: str = ""
    """Its own sentence; empty: the signature's."""
    critical_count: tuple[int, int] | None = None
    """Its own m of n."""
    severity: Severity | None = None
    """The most that its findings can be; None: what the signature says."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Which seconds of an occurrence are lost.

    `leg` queue or rpc of a weight update or `whole` of an occurrence, less the good limit of `beyond`, or `between` it
    and the sample before; or the `spans` of a kind during the finding; or the time between samples times `share` (a
    metric in %; of several the one that was looked at), times what `rest` (another) leaves of 100 %, or times
    `fraction[0] / sum(fraction)`. What lasts uses `leg` where a run has nothing of the others.
    """

    leg: Literal["", "queue", "rpc", "whole", "between"] = ""
    beyond: str = ""
    baseline: bool = False
    """Beyond the median of the occurrences' uncontended peers instead of beyond a band."""
    spans: str = ""
    share: tuple[str, ...] = ()
    rest: str = ""
    fraction: tuple[str, ...] = ()
    back: int = 1
    """Of samples: how many before it the time that one speaks of begins; as many as its conditions look back on."""
    until: str = ""
    """The kind of span whose end the last of the samples within it speaks up to."""
    short: bool = False
    """The part of its time that a condition says is lost: beyond what was usual before, or what peers need."""
    critical_share: float = 1.0
    """So many % of the time are lost at least where the finding is critical, in a run of half an hour or more."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Another signature that, when it fires on the same key or at the same time, explains this one."""

    signature: str
    match: Literal["key", "time", "lost"]


@dataclass(frozen=True, slots=True)
class AdviceFor:
    """What to do where the lines are those of one format pack, in place of the general advice."""

    pack: str
    advice: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Example:
    """A log that must, or must not, give the signature."""

    name: str
    logs: Mapping[str, str]
    """Text by file name; one that gives just `log` has it under the name `example.log`."""
    fires: bool
    verdict: bool
    """It must also be the verdict."""


@dataclass(frozen=True, slots=True)
class Signature:
    """A bottleneck that can be recognised."""

    id: str
    title: str
    kind: Kind
    rank: int
    """Precedence: of several causes for the same second the one with the smallest rank has it."""
    severity: Severity
    """The most that it can be."""
    meaning: str
    sentence: str
    """Template, see `perfmon.rules.sentences`."""
    advice: tuple[str, ...]
    advice_by_cause: Mapping[str, tuple[str, ...]]
    """Of a failure: what to do by its cause, instead of `advice`."""
    confused_with: tuple[str, ...]
    subjects: tuple[Subject, ...]
    """The first of these that the run has data for, and those that say `also`."""
    conditions: tuple[Condition, ...]
    identity: tuple[str, ...]
    """Fields that tell findings of this signature apart."""
    lost: Lost | None
    causes: tuple[Cause, ...]
    for_count: tuple[int, int]
    """m of the last n occurrences, for occurrences in the warning band."""
    critical_count: tuple[int, int]
    """The same for the critical band: (1, 1) fires at once."""
    for_s: float
    """How long occurrences must go on before the finding fires."""
    keep_firing_for_s: float
    """Occurrences that are further apart belong to different episodes; so long after the last one it is resolved."""
    brief_s: float
    """What is over and lasted no longer than that in all is at most a warning; 0: however short it was."""
    skip_first: int
    """Items at the start of each log that are not judged: first fill, model load."""
    unseen: tuple[tuple[str, str], ...]
    """(what is missing: a span kind or metric or `server`, what to say)."""
    examples: tuple[Example, ...]
    file: str
    requires: tuple[str, ...] = ()
    """Span kinds or metrics, all of which the run must have for the signature to be judged."""
    unless: tuple[str, ...] = ()
    """Likewise, none of which it may ever have told: what the signature says is not true of such runs."""
    advice_for: tuple[AdviceFor, ...] = ()
    """The first whose pack the finding's lines are of replaces `advice`."""
    every_s: float = 0.0
    """Samples of a stream that come more often are judged once in this time: what is polled every second."""
