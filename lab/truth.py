"""What a run lost, as the lab itself knows it: from its journal alone, with nothing of perfmon.

A load, a write, a wait of the orchestrator, the last tenth of a batch, an evaluation or a hang that the end of the run
broke off counts as far as it had come. An update that has not reached the server by then, and a batch that the trainer
waits for, do not: no log tells how long they took. The costs follow the definition of lost time: the part of a stretch
beyond what is good for it.

    queue        an update's wait before the engine takes it, beyond 100 ms
    load         the engine's load of weights, beyond 2 s
    write        the trainer's write of a checkpoint, beyond 1 s
    wait         the orchestrator's wait for a checkpoint, beyond 500 ms
    cache        the share of the throughput that sequences waiting for the full cache would make
    cap          the same, for sequences that wait because no more may run
    tail         from nine tenths of a batch to its end, beyond what that takes before the fault
    get          the consumer's wait for a batch, beyond what it is before the fault
    push         the producer's wait for a free place in the queue, beyond what it is right before the fault: a long
                 queue takes a while to be full, and until then no one waits
    stuck        since the engine made no generation any more
    policy-wait  the orchestrator's wait for a policy
    batch-wait   the trainer's wait for a batch
    evaluation   the trainer's wait for a batch while an evaluation runs
    hang         the time in which nothing moves
    restart      from the death of a process until it has begun again, and the steps that it makes again then
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from statistics import median

from .faults import FAULTS
from .host import FULL_PCT
from .plan import Plan

Stretch = tuple[float, float]
Journal = Mapping[str, list[Stretch]]
_NOTHING_S = 0.02
"""A wait that is longer than usual by this is as usual."""
_FELT_S = 0.5
_NEWEST = 20
_BEYOND = {"queue": 0.1, "load": 2.0, "write": 1.0, "wait": 0.5}


def truth(plan: Plan, ended_s: float) -> dict[str, object]:
    """What `truth.json` holds; seconds since the start of the run."""
    journal = read_journal(plan.folder / "journal")
    faults = [
        {
            "name": name,
            "says": FAULTS[name].says,
            "signature": FAULTS[name].signature,
            "also": list(FAULTS[name].also),
            **_cost(name, plan, journal, ended_s),
        }
        for name in plan.faults
    ]
    all_lost = [stretch for name in plan.faults for stretch in _lost(name, plan, journal, ended_s)]
    return {
        "seed": plan.seed,
        "observed_s": round(ended_s, 3),
        "begins_s": plan.begins_s,
        "turns": dict(plan.turns),
        "clock_ahead_s": plan.clock_s,
        "batches": len(journal.get("batch", ())),
        "faults": faults,
        **_full(plan, ended_s),
        "lost_s": round(_length(_union(all_lost)), 3),
    }


def _full(plan: Plan, ended_s: float) -> dict[str, object]:
    """Where memory leaks: in how many seconds after the end its host would be full, at the pace of the leak."""
    if not plan.knobs().leak_mib_s:
        return {}
    rows = [json.loads(line) for line in (plan.folder / "journal" / "host.jsonl").read_text("utf-8").splitlines()]
    leaked = [(row["end"], row["used_pct"]) for row in rows if row["end"] >= plan.begins_s]
    (first_s, first), (last_s, last) = leaked[0], leaked[-1]
    return {"full_in_s": round((FULL_PCT - last) / ((last - first) / (last_s - first_s)) - (ended_s - last_s), 1)}


def read_journal(folder: Path) -> dict[str, list[Stretch]]:
    """All stretches by kind, in time order."""
    held: dict[str, list[Stretch]] = {}
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            result = json.loads(line)
            held.setdefault(result["kind"], []).append((result["start"], result["end"]))
    for stretches in held.values():
        stretches.sort()
    return held


def _cost(name: str, plan: Plan, journal: Journal, ended_s: float) -> dict[str, object]:
    lost = _lost(name, plan, journal, ended_s)
    return {
        "lost_s": round(_length(lost), 3),
        "bites_s": round(_felt(lost), 3) if lost else _first(("missed", "overdue", "died"), journal, plan.begins_s),
    }


def _felt(lost: Sequence[Stretch]) -> float:
    """When it had cost more than now and then a moment, as a busy machine costs as well."""
    sums = accumulate(end - start for start, end in lost)
    return next((start for (start, _), cost in zip(lost, sums, strict=True) if cost > _FELT_S), lost[0][0])


def _lost(name: str, plan: Plan, journal: Journal, ended_s: float) -> list[Stretch]:
    """The stretches that a fault cost, none overlapping another."""
    kind = FAULTS[name].cost
    return _union(_LOST[kind](journal, plan.begins_s, ended_s)) if kind else []


def _length(stretches: Iterable[Stretch]) -> float:
    return sum(end - start for start, end in stretches)


def _first(kinds: Iterable[str], journal: Journal, begins: float) -> float:
    starts = (start for kind in kinds for start, _ in journal.get(kind, ()) if start >= begins)
    return min(starts, default=begins)


def _beyond(kind: str) -> Callable[[Journal, float, float], Iterable[Stretch]]:
    def lost(journal: Journal, begins: float, ended: float) -> Iterable[Stretch]:
        return [
            (start + _BEYOND[kind], end)
            for start, end in journal.get(kind, ())
            if end > begins and end - start > _BEYOND[kind]
        ]

    return lost


def _beyond_usual(kind: str, newest: int = 0) -> Callable[[Journal, float, float], Iterable[Stretch]]:
    """Beyond the median of all before the fault, or of the `newest` of them."""

    def lost(journal: Journal, begins: float, ended: float) -> Iterable[Stretch]:
        all_of_it = journal.get(kind, [])
        before = [end - start for start, end in all_of_it if end <= begins]
        usual = median(before[-newest:] or [0.0])
        return [
            (start + usual, end) for start, end in all_of_it if start >= begins and end - start > usual + _NOTHING_S
        ]

    return lost


def _during(kind: str) -> Callable[[Journal, float, float], Iterable[Stretch]]:
    def lost(journal: Journal, begins: float, ended: float) -> Iterable[Stretch]:
        return [(max(start, begins), end) for start, end in journal.get(kind, ()) if end > begins]

    return lost


def _waits_for_policy(journal: Journal, begins: float, ended: float) -> Iterable[Stretch]:
    return [(start, end) for start, end in journal.get("wait", ()) if end > begins and end - start > 0.1]


def _stuck(journal: Journal, begins: float, ended: float) -> Iterable[Stretch]:
    """Since the last batch was made: the one that follows never is."""
    done = [end for _, end in journal.get("batch", ())]
    return [(max(begins, max(done, default=begins)), ended)]


def _evaluated(journal: Journal, begins: float, ended: float) -> Iterable[Stretch]:
    waits = _union(journal.get("batch-wait", ()))
    return [
        (max(low, start), min(high, end))
        for low, high in journal.get("evaluation", ())
        for start, end in waits
        if min(high, end) > max(low, start)
    ]


def _hung(journal: Journal, begins: float, ended: float) -> Iterable[Stretch]:
    """From when the others have done what was under way, or what they could still do."""
    work = [done for kind in ("train", "write", "batch", "busy") for _, done in journal.get(kind, ())]
    return [
        (max([start, *(done for done in work if start < done < end)]), end)
        for start, end in _during("hang")(journal, begins, ended)
    ]


def _restarted(journal: Journal, begins: float, ended: float) -> Iterable[Stretch]:
    died = [start for start, _ in journal.get("died", ())]
    began = [start for start, _ in journal.get("began", ())]
    down = zip(died, [*began, ended], strict=False)
    again = [end for _, end in journal.get("again", ())]
    return [*down, *((start, max(end for end in again if end > start)) for start in began if again)]


def _union(stretches: Iterable[Stretch]) -> list[Stretch]:
    merged: list[Stretch] = []
    for start, end in sorted(stretches):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        elif end > start:
            merged.append((start, end))
    return merged


_LOST: dict[str, Callable[[Journal, float, float], Iterable[Stretch]]] = {
    **{kind: _beyond(kind) for kind in _BEYOND},
    "cache": _during("cache"),
    "cap": _during("cap"),
    **{kind: _beyond_usual(kind) for kind in ("tail", "get")},
    "push": _beyond_usual("push", _NEWEST),
    "stuck": _stuck,
    "policy-wait": _waits_for_policy,
    "batch-wait": _during("batch-wait"),
    "evaluation": _evaluated,
    "hang": _hung,
    "restart": _restarted,
}
