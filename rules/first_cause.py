"""The first cause of a death among all logs and ranks of a run, and its echoes.

A death is the last failure of a run. A failure that progress follows, the errors of one request, a worker's retry, the
output after an orderly end and the failure of an earlier run in the same file are none. Causes in order of precedence:
an external order that came first; the record of a kill by the kernel, a driver or a scheduler; the earliest failure of
the run itself; a time-out that only names who waited; nothing but echoes ("first cause not in these logs").
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING

from perfmon.core import Fields
from perfmon.store import Failure, ProgressTrack, RunMark, SourceState, place_of

from .activity import activity_of, rhythm_at
from .death import Death, kind_of_failure, name_ranks, same_failure
from .runs import BAR_OF_RUN_S, READY, WEAK, boundaries, last_run_line, refused_launches, run_began, work_of

if TYPE_CHECKING:
    from .run_view import RunView


KILLS = frozenset(("host-out-of-memory", "shared-memory", "gpu-error", "node-failure"))
"""Causes with precedence over a traceback even where they were written later: they record who did it."""
RECORDS = frozenset(("process-died", "killed", "crashed"))
_WINDOW_S = 300.0
"""The cause may lie so long before the first echo, in addition to the time-out that the echo reports."""
_TOGETHER_S = 5.0
_LAST_WORDS_S = 180.0
_LAST_LINES = 400
"""Lines that may follow the last words of a process that did not report its death."""
_BARE = frozenset(("message", "signal"))
"""Fields of a failure that names neither a process nor a place."""
_FRESH_TIMES, _MOST_FRESH_S = 3.0, 10.0
_SURVIVED = 3
_WORK_BEHIND_END, _MUCH_BEHIND_END = 2, 20
"""Lines of progress after the last words of an end that refute it: few before an exception with a traceback, as a
shutdown prints tracebacks, too, but does no work; many before any other failure."""
_ELSEWHERE, _ELSEWHERE_S, _FAR_BEYOND = 3, 60.0, 3.0
"""Work of other logs that continued after a failure: so many events, over so long and so many times their pace."""
_UNDER_WAY = 2
"""Steps that may still end when a watchdog has given up its process."""
_GRACE_S = 150.0
"""A process that a scheduler stops may continue so long: Slurm and Kubernetes give 30 s, clouds 120 s."""
_OF_A_REQUEST = frozenset(("exception", "out-of-memory"))
"""Failures after which a server continues."""
_SCHEDULED = frozenset(("time-limit", "preempted", "cancelled", "node-failure"))
_STOPPED = ("order", "record", "cascade")
"""Roles of the lines of launchers and processes about it: a sample that quotes the scheduler stands alone."""
MISSING_COMMAND, _NOT_FOUND = "missing-command", "127"
_NEXT_LINES = 2
_PAUSE_S = 30.0
_UNPARSED = ("SyntaxError", "IndentationError", "TabError")
_SIGNALS = frozenset(("_queue.Empty", "queue.Empty", "_queue.Full", "queue.Full", "StopIteration"))
"""Exceptions by which code learns that nothing came: those that it raises then name what was wrong."""
_BETWEEN = 150
"""Lines between two failures that are last words together."""


def task_of(cause: Failure, view: RunView) -> Fields:
    """The task of Ray whose exception the driver prints, with its pid and host: the head of the same traceback."""
    tasks = [one for one in view.failures(cause.source) if "task" in one.fields]
    heads = [one for one in tasks if 0 <= cause.line - one.last_line <= _BETWEEN]
    head = max(heads, key=lambda one: one.last_line, default=None)
    if head is None:
        return {}
    known = {"task": head.fields["task"], "pid": head.fields.get("task_pid"), "host": head.fields.get("task_ip")}
    return {name: str(value).removeprefix("ray::") for name, value in known.items() if value}


def death_of(view: RunView) -> Death | None:
    """The death of the last run in the logs; None where it continues, or ended in an orderly way."""
    failures = [one for one in view.store.failures.kept if one.role != "context" and _of_last_run(one, view)]
    return first_of([one for one in failures if _is_last_word(one, view)], view)


def first_of(dead: Sequence[Failure], view: RunView) -> Death | None:
    """The death of a run with these last words; None where none of them proves one."""
    candidates = [one for one in dead if one.role in ("cause", "record", "order", "cascade")]
    if not any(one.role != "cascade" or one.fatal or one.frame or _was_stopped(one) for one in candidates):
        return None  # a peer that went away, without an error
    if not any(one.fatal or one.role == "record" for one in candidates):
        # An exception without a traceback, as `Error: ...`, was caught: it ended no process.
        candidates = [one for one in candidates if one.cause != "exception" or one.frame]
    candidates.sort(key=lambda one: (_time(one, view), one.source, one.line))
    return _judged(candidates, view) if candidates else None


def _was_stopped(failure: Failure) -> bool:
    """True where a process reports that a signal ended its child: the same one has ended it, mostly."""
    return failure.cause == "killed" and "signal" in failure.fields


def _time(failure: Failure, view: RunView) -> float:
    return failure.time + view.shift(failure.source)


def _when(failure: Failure, view: RunView) -> float:
    """The time of a death; where its log has no clock and others do, not before their last lines."""
    if not view.store.sources[failure.source].clockless:
        return _time(failure, view)
    lasts = [view.extent(state)[1] for state in view.logs if not state.clockless and state.last is not None]
    return max([_time(failure, view), *lasts])


def _of_last_run(failure: Failure, view: RunView) -> bool:
    if since := last_run_line(failure.source, view):
        return failure.last_line >= since
    state = view.store.sources[failure.source]
    return not view.fact(boundaries) or state.clockless or _time(failure, view) >= view.fact(run_began) - _TOGETHER_S


def _is_last_word(failure: Failure, view: RunView) -> bool:
    """True for a failure after which nothing of its run continued."""
    state = view.store.sources[failure.source]
    if view.clip is not None and _time(failure, view) > max(view.clip[1], view.present or view.clip[1]):
        return False
    if failure in view.fact(refused_launches) or _is_ready_again(failure, view):
        return False
    own = work_of(state.index, view)
    if any(track.last_line > failure.last_line for track in own) and not _dies_on(failure, own, view):
        return False
    end = _orderly_end(failure, view)
    if end is not None and failure.role != "order":
        return False
    if failure.role != "cause" and not failure.fatal and _has_made_all_steps(state, view):
        return False
    if goes_on_elsewhere(failure, view):
        return False
    if failure.fields.keys() <= _BARE and _is_fresh(failure, view):
        return False  # a word that a shell prints, and a sample, too: the log may continue at once
    if failure.cause == MISSING_COMMAND and not _ends_a_script(failure, view):
        return False
    if failure.fatal:
        return True
    if failure.cause == "exception" and (_is_fresh(failure, view) or _is_survived(failure, view)):
        return False
    if state.idle_silence and failure.cause in _OF_A_REQUEST and not _ends_its_server(failure, view):
        return False
    return failure.last_line >= _last_words_from(state, view)


def _ends_its_server(failure: Failure, view: RunView) -> bool:
    """True where the log of a server reports the end of one of its processes next to the failure of a request."""
    return any(
        (one.fatal or one.role == "record") and abs(one.line - failure.line) <= _BETWEEN
        for one in view.failures(failure.source)
        if one is not failure
    )


def _is_ready_again(failure: Failure, view: RunView) -> bool:
    """True where the server of a log was ready after it: it started again, or without what failed."""
    return any(
        source == failure.source and line > failure.last_line
        for series in view.marked(READY)
        for line, source in zip(series.lines, series.sources, strict=True)
    )


def _dies_on(failure: Failure, own: Sequence[ProgressTrack], view: RunView) -> bool:
    """True where the progress after it was that of a step under way, and its process reports its death, too.

    Or it is the exception of a task that ended Ray's driver: the lines that workers printed until then come after it.
    """
    behind = {line for track in own for line in track.all_lines() if line > failure.last_line}
    if len(behind) < _MUCH_BEHIND_END and failure.frame.get("entry") and task_of(failure, view):
        return True
    if failure.cause in _SCHEDULED and failure.fatal:  # a stopped process continues until it is killed
        late = max(time for track in own for time in track.times) - failure.time
        seconded = any(
            one.cause != failure.cause and one.role in _STOPPED and 0 < abs(one.line - failure.line) <= _BETWEEN
            for one in view.failures(failure.source)
        )
        return seconded and late <= _GRACE_S and (late > 0 or len(behind) < _MUCH_BEHIND_END)
    later = [one for one in view.failures(failure.source) if one.line > max(behind)]
    return failure.fatal and len(behind) <= _UNDER_WAY and any(one.fatal or one.role == "record" for one in later)


def _ends_a_script(failure: Failure, view: RunView) -> bool:
    """True where a shell went no further without a command: it exits with 127, or printed nothing else, and no work was
    done before.

    A script without `set -e` goes on, and what it calls when its work is done is no matter.
    """
    later = [one for one in view.store.failures.kept if one.source != failure.source or one.line > failure.line]
    if any(str(one.fields.get("exitcode")) == _NOT_FOUND for one in later):
        return True
    state = view.store.sources[failure.source]
    if view.present is not None or view.fact(activity_of).work:
        return False
    begin = state.lines + 1
    for one in sorted(view.failures(state.index), key=lambda one: -one.last_line):
        if begin - one.last_line > _NEXT_LINES:
            return False
        if one is failure:
            return True
        begin = one.line
    return False


def _is_fresh(failure: Failure, view: RunView) -> bool:
    """True where a run that is monitored had no time yet to continue: a caught exception is printed like any other.

    Where peers have reported a lost connection since then it was not caught.
    """
    if view.present is None:
        return False
    if any(one.role == "cascade" and one.line > failure.line for one in view.failures(failure.source)):
        return False
    time = _time(failure, view)
    rhythm = rhythm_at(view.fact(activity_of), time, view.present)
    return rhythm is not None and view.present - time < min(_FRESH_TIMES * rhythm.usual_s, _MOST_FRESH_S)


def _is_survived(failure: Failure, view: RunView) -> bool:
    """True where its log repeatedly printed the same exception from the same place, and work continued each time."""
    alike = [
        one for one in view.failures(failure.source)
        if one.cause == failure.cause and one.last_line <= failure.last_line
        and one.fields.get("type") == failure.fields.get("type") and one.frame == failure.frame
        and _of_last_run(one, view)
    ]  # fmt: skip
    if len(alike) <= _SURVIVED:
        return False
    lines = sorted(line for track in view.store.progress.of(failure.source) for line in track.all_lines())
    alike.sort(key=lambda one: one.line)
    return sum(bisect_right(lines, b.line) > bisect_right(lines, a.line) for a, b in pairwise(alike)) >= _SURVIVED


def _last_words_from(state: SourceState, view: RunView) -> int:
    """The first line of the last words of a log: failures with few other lines between them."""
    lines = sorted((one.last_line, one.time) for one in view.failures(state.index))
    begin = state.lines + 1
    until = state.last
    for line, time in reversed(lines):
        few = begin - line <= (_LAST_LINES if begin > state.lines else _BETWEEN)
        if not few or (begin > state.lines and until is not None and until - time > _LAST_WORDS_S and begin - line > 5):
            break
        begin = line
    return begin


def _orderly_end(failure: Failure, view: RunView) -> RunMark | None:
    """The last words of an orderly end before a failure in its log, which then is noise of the shutdown.

    None where work continued after them: a script trains several models, or serves what it has trained.
    """
    since = last_run_line(failure.source, view)
    ends = [mark for mark in view.run_marks(failure.source, "end") if since <= mark.line < failure.line]
    if failure.frame and ends and "cut_short" in ends[-1].fields:
        return None  # the training ended early, and with it nothing but that
    if not ends or _was_told_before(failure, ends[0].line, since, view):
        return None
    tracks = view.store.progress.of(failure.source)
    worked = len({line for track in tracks for line in track.all_lines() if ends[-1].line < line < failure.line})
    few = _WORK_BEHIND_END if failure.frame else _MUCH_BEHIND_END
    return None if failure.role == "cause" and worked >= few else ends[0]


def _was_told_before(failure: Failure, end: int, since: int, view: RunView) -> bool:
    """True where its exception was reported just before the last words of an end: these are its consequence."""
    kind = str(failure.fields.get("type", "")).rpartition(".")[2]
    return bool(kind) and any(
        max(since, end - _BETWEEN) <= one.line < end and str(one.fields.get("type", "")).rpartition(".")[2] == kind
        for one in view.failures(failure.source)
    )


def _has_made_all_steps(state: SourceState, view: RunView) -> bool:
    """True where the counter of steps of a log reached its total: a kill after that costs nothing."""
    counters = [one for one in view.counters(state.index) if one.kind == "step" and one.total]
    biggest = max(counters, key=lambda one: one.total or 0.0, default=None)
    if biggest is None or biggest.amount < (biggest.total or 0.0):
        return False
    return biggest.elapsed_s is None or biggest.elapsed_s >= BAR_OF_RUN_S


def goes_on_elsewhere(failure: Failure, view: RunView) -> bool:
    """True where the work of the run continued long after it, by other logs: it cost a part, not the run."""
    state = view.store.sources[failure.source]
    if state.clockless and any(not other.clockless for other in view.store.sources):
        return False  # its time is unknown; the ends of the other logs decide
    time = _time(failure, view)
    steps, events, stepping = view.fact(_work_times)
    times = steps if len(stepping) > (failure.source in stepping) else events
    last = next((at for at, source in reversed(times) if source != failure.source), -inf)
    if last - time <= _ELSEWHERE_S:
        return False
    before, count, paced, spread = inf, 0, False, False
    for number in range(bisect_right(times, (time, inf)), len(times)):
        at, source = times[number]
        if source != failure.source:
            spread = spread or at > before
            paced = paced or 0.0 < at - before < (last - time) / _FAR_BEYOND
            before, count = at, count + 1
            if paced and count >= _ELSEWHERE:
                break
    return count >= _ELSEWHERE and (paced or not spread)


def _work_times(view: RunView) -> tuple[list[tuple[float, float]], list[tuple[float, float]], frozenset[int]]:
    """Times of the steps, and of all work, each with its log, ascending; the logs with steps."""
    tracks = view.fact(activity_of).work
    stepping = [track for track in tracks if track.is_step]
    return (
        sorted((at, track.source) for track in stepping for at in track.times),
        sorted((at, track.source) for track in tracks for at in track.times),
        frozenset(track.source for track in stepping if track.times),
    )


# --- the first cause ----------------------------------------------------------------------------------------------
def _judged(failures: Sequence[Failure], view: RunView) -> Death | None:
    failures = _of_last_process(failures, view)
    first = _first_cause(failures, view)
    if first is None:
        return None
    known = first.role in ("cause", "order") or first.cause in KILLS
    echoes = [one for one in failures if one is not first]
    death = Death(first, _when(first, view), known, echoes, same_failure(first, failures))
    timeouts = [one for one in failures if one.cause == "collective-timeout"]
    if timeouts:
        name_ranks(death, timeouts, view)
    if first.role == "order":
        death.hung_s = _hung_before(death.time, view)
    return death


def _ended_it(failure: Failure) -> bool:
    """False for an exception without a traceback, as `Error: ...`: it was caught, and the run was stopped later."""
    return failure.cause != "exception" or failure.fatal or bool(failure.frame)


def _follows_a_death(order: Failure, failures: Sequence[Failure], view: RunView) -> bool:
    """A launcher cancels the rest of a job step because one of its tasks died."""
    records = [one for one in failures if one.role == "record" and one.cause in RECORDS]
    return order.cause == "cancelled" and any(_before(one, order, view) for one in records)


def _ends_in_order(order: Failure, view: RunView) -> bool:
    """A process that was stopped announced its end, before its parts reported the signal or after: no failure."""
    ends = [mark for mark in view.run_marks(order.source, "end") if mark.line > order.line]
    if any("tracker" not in mark.fields for mark in ends):  # which knows no more than that nothing was raised
        return True
    end = _orderly_end(order, view)
    tracks = view.store.progress.of(order.source)
    return end is not None and not any(track.last_line > end.line for track in tracks)


def _first_cause(failures: Sequence[Failure], view: RunView) -> Failure | None:
    """The first cause among failures in order of time; None where the run was stopped and ended in an orderly way."""
    records = [one for one in failures if one.role == "record"]
    causes = [one for one in failures if one.role == "cause"]
    causes = [one for one in causes if one.fields.get("type") not in _SIGNALS] or ([] if records else causes)
    orders = [one for one in failures if one.role == "order" and not _follows_a_death(one, failures, view)]
    kills = [one for one in failures if one.cause in KILLS and one.role in ("cause", "record")]
    strong = [one for one in causes if one.cause not in WEAK]
    begin = _time(failures[0], view)
    if orders:
        order = orders[0]
        earlier = [one for one in strong if _before(one, order, view) and (_ended_it(one) or not order.fatal)]
        if order.cause == "interrupted" and not earlier and _ends_in_order(order, view):
            return None
        since = max((_time(one, view) for one in earlier), default=-inf)
        if not earlier or (order.cause in ("time-limit", "preempted") and _time(order, view) - since > _WINDOW_S):
            return order
    if kills:
        return kills[0]
    if strong:
        # A message of one rank that differs from that of most others is the reason why these failed, too.
        alike = Counter(kind_of_failure(one) for one in strong)
        most = max(alike.values())
        distinct = len({one.source for one in strong}) > 1 or all("rank" in one.fields for one in strong)
        rare = [one for one in strong if alike[kind_of_failure(one)] == 1] if most >= 3 and distinct else []
        near = [one for one in rare if _time(one, view) - begin <= _WINDOW_S]
        return (near or strong)[0]
    if causes:
        return min(causes, key=lambda one: one.cause == "network")
    raised = [one for one in failures if one.frame]
    if records and raised and records[0].fields.keys() <= _BARE and _before(raised[0], records[0], view):
        return raised[0]  # it lost a peer, and was cleared away
    return (records or failures)[0]


def _of_last_process(failures: Sequence[Failure], view: RunView) -> list[Failure]:
    """The failures without those of an earlier process: a dead one prints no dated line half a minute later.

    Of logs that name several ranks or processes nothing is left out: one may continue when another one is dead.
    """
    causes = [one for one in failures if one.role in ("cause", "order") and one.cause not in WEAK]
    if len(causes) < 2 or len({place_of(one.fields) for one in causes} - {""}) > 1:
        return list(failures)
    for broken in causes:  # a script that does not compile, or lacks what it imports at first, printed nothing before
        script = _script_never_ran(broken)
        if script and any(one.frame.get("entry") == script for one in causes if not _script_never_ran(one)):
            return [one for one in failures if one.source != broken.source or one.last_line >= broken.line]
    causes = [one for one in causes if one.role == "cause"]
    last: dict[int, int] = {}
    for one in causes:
        last[one.source] = max(last.get(one.source, 0), one.line)
    return [
        one for one in failures
        if one.last_line >= last.get(one.source, 0) or not any(
            gap.line <= one.last_line < gap.upto < last[one.source] and gap.end - gap.start >= _PAUSE_S
            for gap in view.store.sources[one.source].gaps
        )
    ]  # fmt: skip


def _script_never_ran(failure: Failure) -> str:
    """The main script of a process that does not compile, or did no more than import; "" for any other failure.

    The frame of the former has no function, and no caller; all that ran of the latter is the body of modules.
    """
    frame = failure.frame
    if failure.cause == "missing-module":
        return str(frame.get("entry", "")) if frame.get("own_function") == "<module>" else ""
    unparsed = str(failure.fields.get("type")) in _UNPARSED
    return str(frame.get("own_file", "")) if unparsed and "function" not in frame and not frame.get("entry") else ""


def _before(one: Failure, other: Failure, view: RunView) -> bool:
    if one.source == other.source:
        return one.line < other.line
    return _time(one, view) < _time(other, view) - _TOGETHER_S / 5


def _hung_before(time: float, view: RunView) -> float:
    """Seconds without progress before an external order, where they were more than usual."""
    before = [event for event in view.fact(activity_of).events if event <= time]
    if not before:
        return 0.0
    rhythm = rhythm_at(view.fact(activity_of), before[-1], time)
    length = time - before[-1]
    return length if rhythm is not None and length > rhythm.limit_s else 0.0
