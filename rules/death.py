"""The data of a death: the failures that led to it, its fields for a sentence, and the ranks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from perfmon.core import Fields, format_seconds
from perfmon.hangs import rank_words
from perfmon.store import Failure

if TYPE_CHECKING:
    from .run_view import RunView


WAITED = frozenset(("collective-timeout",))
"""Causes that are reported long after the run stopped making progress."""
CAUSE_WORDS = {
    "out-of-memory": "GPU memory ran out",
    "host-out-of-memory": "the host ran out of memory",
    "shared-memory": "shared memory (/dev/shm) ran out",
    "collective-timeout": "a collective timed out",
    "exception": "an uncaught exception",
    "gpu-error": "a GPU error",
    "disk-full": "no disk space left",
    "time-limit": "the scheduler's time limit",
    "preempted": "preemption by the scheduler",
    "cancelled": "external cancellation",
    "node-failure": "a failed node",
    "killed": "a kill signal",
    "interrupted": "a signal to stop",
    "engine-dead": "a crashed inference engine",
    "startup-refused": "a refused start",
    "not-finite": "loss or gradients that became NaN or infinite",
    "network": "a lost connection",
    "ended-in-start": "an unknown cause during startup",
    "ended-at-work": "an unknown cause at work",
    "process-died": "a crashed process",
    "crashed": "a crash in native code",
    "illegal-instruction": "an instruction that this processor does not have",
    "data-error": "unreadable data",
    "configuration": "a configuration error",
    "missing-module": "a missing Python module",
    "missing-command": "a missing command",
}
"""Causes of a death, as the end of a sentence."""
_ILLEGAL = {"4", "sigill", "illegal instruction", "illegal hardware instruction"}
_OWN_DOING = {
    "6",
    "7",
    "8",
    "11",
    "sigabrt",
    "sigbus",
    "sigfpe",
    "sigsegv",
    "segmentation fault",
    "aborted",
    "bus error",
}
"""Signals that a process raises by what it does itself, by number, name and description."""
_ILLEGAL_EXITS = {"-4", "132"}
_KILL, _KILL_EXITS = {"9", "sigkill", "killed"}, {"-9", "137"}
_TEXT = 240
"""Characters: the setting to change mostly stands at the end of a message."""
_JOINED = ("rank", "local_rank", "host", "exitcode", "signal")


@dataclass(slots=True)
class Death:
    """The death of a run."""

    cause: Failure
    time: float
    """On the run's axis."""
    known: bool
    """The first cause is in these logs; else only its echo."""
    echoes: list[Failure] = field(default_factory=list)
    """Failures of other ranks, parents and servers because of it, by time."""
    ranks: tuple[str, ...] = ()
    """Ranks with the same failure."""
    silent_ranks: tuple[str, ...] = ()
    """Ranks that reported no time-out while the others did."""
    behind: tuple[str, ...] = ()
    """Ranks whose last collective lies behind that of the others."""
    why: str = ""
    """The operation in which the others wait for them, of flight-recorder dumps."""
    hung_s: float = 0.0
    """Seconds without progress before the run was ended."""
    tries: int = 1
    """Failed starts in a row."""
    anew: bool = False
    """Another start is under way."""

    @property
    def named_cause(self) -> str:
        """The cause by the signal that ended the process, which a log may call a kill: some are never sent by users."""
        if self.cause.cause not in ("killed", "crashed", "process-died"):
            return self.cause.cause
        fields = {**_joined_fields(self.cause, self.echoes), **self.cause.fields}
        signal = str(fields.get("signal", "")).lower()
        if signal in _ILLEGAL or str(fields.get("exitcode", "")) in _ILLEGAL_EXITS:
            return "illegal-instruction"
        if signal in _KILL or str(fields.get("exitcode", "")) in _KILL_EXITS:
            return "killed"
        return "crashed" if self.cause.cause == "killed" and signal in _OWN_DOING else self.cause.cause

    @property
    def fields(self) -> Fields:
        """The values of its lines, for a sentence."""
        fields: Fields = {**_joined_fields(self.cause, self.echoes), **self.cause.fields}
        for name in ("node", "ip"):
            if "host" not in fields and name in fields:
                fields["host"] = fields[name]
        if "total" in fields:  # of memory: the slot of that name counts occurrences
            fields["capacity"] = fields.pop("total")
        message = str(fields.get("message", "") or fields.get("type", "")) or self.cause.text
        message = message.strip()
        fields["message"] = _shortened(message)
        if message == fields.get("type"):  # an exception without a text
            del fields["type"]
        if "exit_detail" in fields:
            fields["exit_detail"] = _shortened(str(fields["exit_detail"]))
        frame = self.cause.frame
        if frame.get("file"):
            place = f"{str(frame['file']).rpartition('/')[2]}:{frame.get('line', '?')}"
            function = frame.get("function", "")
            fields["frame"] = f"{place} in {function}" if function else place
        if self.cause.cause in WAITED:
            fields.pop("rank", None)
            fields["reported"] = _named(self.ranks)
            culprits = self.behind or self.silent_ranks
            if len(culprits) == 1:
                fields["rank"] = culprits[0]
        elif len(self.ranks) > 1:
            fields.pop("rank", None)
            fields["ranks"] = _named(self.ranks)
        if self.silent_ranks:
            fields["silent_ranks"] = _named(self.silent_ranks)
        if self.behind:
            fields["behind"] = _named(self.behind)
        if self.why:
            fields["behind_why"] = self.why
        if self.echoes:
            fields["echoes"] = str(len(self.echoes))
        if self.hung_s > 0:
            fields["hung"] = format_seconds(self.hung_s)
        if self.tries > 1:
            fields["tries"] = f"{self.tries} starts"
        if self.anew:
            fields["anew"] = "restarted since, and not ready yet"
        return fields


def _shortened(text: str) -> str:
    """The start of a text, in whole words."""
    if len(text) <= _TEXT:
        return text
    kept = text[:_TEXT]
    return f"{kept[: max(kept.rfind(' '), _TEXT // 2)].rstrip(' .,;:(')}…"


def _joined_fields(cause: Failure, others: Iterable[Failure]) -> Fields:
    """The rank and host of the process that failed, from the record of its parent, by its pid."""
    pid = cause.fields.get("pid")
    records = [one for one in others if one.role == "record"]
    mine = [one for one in records if pid is not None and one.fields.get("pid") == pid]
    ranked = {str(one.fields["rank"]) for one in records if "rank" in one.fields}
    if not mine and "rank" not in cause.fields and len(ranked) == 1:
        mine = [one for one in records if "rank" in one.fields]
    if not mine and pid is None and "rank" not in cause.fields and len({one.fields.get("pid") for one in records}) == 1:
        # One process died, and one failure is its reason; a launcher then clears the other tasks away, by signals.
        tasks = cause.fields.get("tasks", records[0].fields.get("tasks"))
        mine = [one for one in records if one.fields.get("tasks") == tasks]
    joined: Fields = {}
    for one in mine:
        joined |= {name: one.fields[name] for name in _JOINED if name in one.fields and name not in joined}
    if "rank" not in joined and "local_rank" in joined and not any("rank" in one.fields for one in records):
        joined["rank"] = joined["local_rank"]  # of one node, as far as these logs show
    return joined


def kind_of_failure(failure: Failure) -> tuple[str, str]:
    """The common part of equal failures, however their lines are torn."""
    return failure.cause, str(failure.fields.get("type", ""))


def same_failure(first: Failure, failures: Iterable[Failure]) -> tuple[str, ...]:
    """Ranks with the same failure."""
    wanted = (first.cause, first.fields.get("type"))
    ranks = {
        str(one.fields["rank"])
        for one in failures
        if "rank" in one.fields and (one.cause, one.fields.get("type")) == wanted and one.role == first.role
    }
    return tuple(sorted(ranks, key=_number))


def _number(text: str) -> tuple[int, str]:
    return (int(text), text) if text.isdecimal() else (1 << 30, text)


# --- who is behind ------------------------------------------------------------------------------------------------
def name_ranks(death: Death, timeouts: Sequence[Failure], view: RunView) -> None:
    """Set the ranks that did not report, and those that are behind: by flight-recorder dumps if there are any."""
    found = view.store.hang
    if found is not None:
        death.behind, death.why = tuple(map(str, found.ranks)), found.why
        return
    from perfmon.hangs import Kind, evidence_of_lines, judge  # for the few runs that died of this

    verdict, graph = judge(evidence_of_lines((one.fields, one.text) for one in timeouts))
    silent = set(graph.evidence.missing)
    lagging = {rank for cause in verdict.causes if cause.kind in (Kind.HOST, Kind.DEVICE) for rank in cause.ranks}
    death.behind = tuple(map(str, sorted((set(verdict.ranks) | lagging & set(verdict.candidates)) - silent)))
    death.silent_ranks = tuple(map(str, sorted({*verdict.ranks, *verdict.candidates} & silent)))


def _named(ranks: Sequence[str]) -> str:
    """`rank 5` or `ranks 0-3, 7`."""
    numbers = [int(rank) for rank in ranks if rank.isdecimal()]
    return rank_words(numbers) if len(numbers) == len(ranks) else f"rank{'s' * (len(ranks) != 1)} {', '.join(ranks)}"
