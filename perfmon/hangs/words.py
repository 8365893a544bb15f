"""A verdict about a hang in sentences."""

from __future__ import annotations

from collections.abc import Iterable

from perfmon.core import counted

from .graph import WaitGraph
from .model import Evidence, Operation, named_ranks
from .verdict import Answer, Cause, Kind, Verdict

_STEPS = {
    Kind.HOST: "Check the last log lines and the stack (py-spy dump) of {who}: data loading, a checkpoint, a held GIL"
    " or an exception that was caught keep it from launching the next collective.",
    Kind.DEVICE: "Check the GPU and links of {who}: Xid errors (dmesg, nvidia-smi -q), ECC and NVLink counters; its"
    " peers have finished the same operation.",
    Kind.MISMATCH: "Compare the code path of {who} with the others: a branch that depends on data, an early stop, or"
    " batches of different sizes.",
    Kind.ORDER: "Let all ranks launch the collectives of different groups in the same order; check the branch that"
    " {who} took.",
    Kind.MISSING: "Check whether {who} still {run}, and the last log lines: out of memory, a lost node, or an exception"
    " before destroy_process_group().",
    Kind.REPORTED: "Check the last log lines and the stack (py-spy dump) of {who}.",
    Kind.ARRIVED: "All ranks have launched it: check the network (NCCL_DEBUG=INFO, link counters), the GPUs of the"
    " group, and known bugs of this NCCL version.",
    Kind.UNKNOWN: "Give the dumps and logs of all ranks; if the oldest operation is not known, dump again with a larger"
    " ring buffer (TORCH_FR_BUFFER_SIZE=20000).",
}


_AHEAD = (
    "Check the call site of {who}: a collective that only some of the ranks reach, such as one under `if rank == 0`,"
    " waits for ever for the others."
)


def rank_words(ranks: Iterable[int]) -> str:
    """`rank 5` or `ranks 0-3, 7`."""
    numbers = sorted(set(ranks))
    return f"{'rank' if len(numbers) == 1 else 'ranks'} {named_ranks(numbers)}"


def operation_words(operation: Operation | None, evidence: Evidence) -> str:
    """`all_reduce 4211 in default_pg`, `recv from rank 3 in PIPELINE (43)`."""
    if operation is None:
        return "an operation that is not listed"
    group = evidence.label(operation.group)
    if operation.is_p2p:
        side = "from" if operation.name == "recv" else "to"
        peer = f" {side} rank {operation.peer}" if operation.peer is not None and operation.peer >= 0 else ""
        return f"{operation.name}{peer} in {group}"
    return f"{operation.name or 'collective'} {operation.seq} in {group}"


def cause_words(cause: Cause, evidence: Evidence) -> str:
    """One sentence about the ranks of a cause, without the ranks that wait."""
    who, several = rank_words(cause.ranks), len(cause.ranks) > 1
    what = operation_words(cause.operation, evidence)
    have, be = ("have", "are") if several else ("has", "is")
    if cause.operation is not None and cause.operation.is_p2p and cause.kind in (Kind.HOST, Kind.MISSING):
        what = f"the {'send' if cause.operation.name == 'recv' else 'recv'} that matches {what}"
    match cause.kind:
        case Kind.HOST:
            outstanding = f"{have} no outstanding operation" if _is_complete(cause, evidence) else f"{be} behind"
            return f"{who} {outstanding} and {have} not launched {what}"
        case Kind.DEVICE:
            return f"{who} {have} not finished {what}, which {rank_words(cause.among)} finished"
        case Kind.MISMATCH if cause.ranks:
            names = {part.split()[0] for part in cause.detail.split("; ")}
            differs = f"{be} in another operation" if len(names) > 1 else f"{have} another size or type"
            return f"{who} {differs} at {_number(cause, evidence)}: {cause.detail}"
        case Kind.MISMATCH:
            return f"{rank_words(cause.among)} differ at {_number(cause, evidence)}: {cause.detail}"
        case Kind.ORDER if cause.ranks:
            rest = rank_words(set(cause.among) - set(cause.ranks))
            return f"{who} {'wait' if several else 'waits'} in {what} while {rest} wait for it in another group"
        case Kind.ORDER:
            return f"{rank_words(cause.among)} wait for each other: their groups' operations differ in order"
        case Kind.MISSING:
            return f"{who} left no dump and no line, and {have} not been seen in {what}"
        case Kind.REPORTED:
            return f"{who}: {cause.detail}"
        case Kind.ARRIVED:
            return f"{who} {'have all' if several else 'has'} arrived in {what}, which does not finish"
        case Kind.UNKNOWN if cause.detail and len(cause.ranks) == len(evidence.world):
            all_known = f"all {len(cause.ranks)} ranks that are known"
            known = f"{all_known} have" if several else f"{who}, the only known one, has"
            return f"{known} arrived in {what}; {cause.detail}"
        case Kind.UNKNOWN if cause.detail:
            return f"{who} {be} in {what}; {cause.detail}"
        case _:
            return f"the oldest outstanding operation of {who}, or the members of its group, are not known"


def _number(cause: Cause, evidence: Evidence) -> str:
    operation = cause.operation
    return f"number {operation.seq} of {evidence.label(operation.group)}" if operation is not None else "one number"


def _is_complete(cause: Cause, evidence: Evidence) -> bool:
    return all(evidence.states[rank].complete for rank in cause.ranks if rank in evidence.states)


def summary(verdict: Verdict, evidence: Evidence) -> str:
    """The answer in one sentence."""
    match verdict.answer:
        case Answer.NAMED:
            causes = [cause for cause in verdict.causes if set(cause.ranks) & set(verdict.ranks)]
            kinds = list(dict.fromkeys(cause.kind for cause in causes))
            joined = [_joined([one for one in causes if one.kind is kind]) for kind in kinds[:2]]
            texts = [cause_words(one, evidence) for one in joined]
            if {rank for one in joined for rank in one.ranks} < set(verdict.ranks):
                texts[0] = f"{rank_words(verdict.ranks)}; {texts[0]}"
            tail = f"; {verdict.confidence}" if verdict.confidence else ""
            return f"{'; '.join(texts)}{tail}"
        case Answer.CANDIDATES if verdict.ahead:
            return _ahead_words(verdict, evidence)
        case Answer.CANDIDATES:
            return f"not decided; candidates: {rank_words(verdict.candidates)}"
        case Answer.ARRIVED:
            arrived = next(cause for cause in verdict.causes if cause.kind is Kind.ARRIVED)
            return f"no rank is behind: {cause_words(arrived, evidence)}"
        case Answer.NO_HANG:
            return "no rank has an outstanding operation: nothing hangs in a collective"
        case _:
            open_one = next((one for one in verdict.causes if one.kind is Kind.UNKNOWN and one.detail), None)
            why = cause_words(open_one, evidence) if open_one is not None else "the evidence does not decide"
            return f"cannot tell who is behind: {why}"


def _ahead_words(verdict: Verdict, evidence: Evidence) -> str:
    cause = max((one for one in verdict.causes if one.kind is Kind.HOST), key=lambda one: one.waiting)
    who, (be, it) = rank_words(verdict.ahead), ("are", "they are") if len(verdict.ahead) > 1 else ("is", "it is")
    rest = rank_words(set(verdict.candidates) - set(verdict.ahead))
    return (
        f"{who} alone {be} in {operation_words(cause.operation, evidence)}, which {rest} have not launched: either {it}"
        f" ahead (a collective under `if rank == {verdict.ahead[0]}`), or {rest} are behind"
    )


def brief(verdict: Verdict, evidence: Evidence) -> str:
    """The operation that the named ranks hold up, for a sentence that names them."""
    if verdict.answer is not Answer.NAMED:
        return summary(verdict, evidence)
    first = next(cause for cause in verdict.causes if set(cause.ranks) & set(verdict.ranks))
    text = cause_words(first, evidence) if first.kind is not Kind.HOST else operation_words(first.operation, evidence)
    return f"{text}; {verdict.confidence}"


def _joined(causes: list[Cause]) -> Cause:
    """Several causes of a kind as one, where they are in the same operation; else the one with the most waiters."""
    first = max(causes, key=lambda cause: cause.waiting)
    alike = [one for one in causes if _place(one) == _place(first) and one.kind in (Kind.HOST, Kind.MISSING)]
    if len(alike) < 2:
        return first
    ranks = tuple(sorted({rank for one in alike for rank in one.ranks}))
    return Cause(first.kind, ranks, first.waiting, first.place, first.operation, first.detail, first.among)


def _place(cause: Cause) -> object:
    return (cause.operation.group, cause.operation.seq) if cause.operation is not None else None


def next_steps(verdict: Verdict) -> list[str]:
    """Next steps, the most important first."""
    steps = [_AHEAD.format(who=rank_words(verdict.ahead))] if verdict.ahead else []
    wanted = set(verdict.ranks or verdict.candidates)
    for kind in Kind:
        ranks = {rank for cause in verdict.causes if cause.kind is kind for rank in cause.ranks or cause.among} & wanted
        shown = verdict.answer in (Answer.ARRIVED, Answer.UNKNOWN) and kind in (Kind.ARRIVED, Kind.UNKNOWN)
        if ranks or (shown and any(cause.kind is kind for cause in verdict.causes)):
            who, run = rank_words(ranks) if ranks else "the ranks", "runs" if len(ranks) == 1 else "run"
            steps.append(_STEPS[kind].format(who=who, run=run))
    return steps


def waiting_rows(graph: WaitGraph) -> list[tuple[Operation | None, list[int], list[int]]]:
    """Operations in which ranks wait, with these ranks and those that they wait for; most ranks first."""
    rows = []
    for place, ranks in graph.places.items():
        operation = next(
            (one for one in graph.frontiers[ranks[0]].operations if (one.group, one.seq) == (place.group, place.seq)),
            None,
        )
        rows.append((operation, sorted(ranks), sorted(graph.behind(place))))
    return sorted(rows, key=lambda row: (-len(row[1]), row[1]))


def extent(evidence: Evidence) -> str:
    """`16 ranks: 15 dumps, lines of 1`."""
    dumps = sum(state.complete for state in evidence.states.values())
    lines = len({*evidence.states, *evidence.alive}) - dumps
    parts = [counted(dumps, "dump")] if dumps or evidence.files else []
    parts += [f"watchdog lines of {counted(lines, 'rank')}"] if lines else []
    return f"{counted(len(evidence.world), 'rank')}: {', '.join(parts) or 'no dumps and no watchdog lines'}"
