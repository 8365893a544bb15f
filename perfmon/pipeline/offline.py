"""A finished run: all of its logs are read, by several processes where that is faster, and diagnosed.

The examples of signatures are such runs, too: each must fire, or not, as it states.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from perfmon.clocks import apply_mtime, date_tails
from perfmon.core import WATCHED, WHOLE, Block, Config, Detail, Fields, Notice, Ref, TimeBase
from perfmon.diagnosis import Diagnosis
from perfmon.rules import START_SPANS, UPDATE, UPDATE_METRICS, Example, Vocabulary, load_signatures
from perfmon.sources import (
    ARCHIVES,
    STDIN,
    TRUNCATED,
    BulkScanner,
    Cut,
    LogFile,
    UnsplittableError,
    damaged,
    discover,
    distinct,
    read_logs,
    splittable,
    usable_cores,
    without_copies,
)
from perfmon.sources.formats import load_packs
from perfmon.sources.scan import Scanner
from perfmon.store import HangNote, SourceState, Store

from .session import Session

if TYPE_CHECKING:
    from perfmon.diagnosis import RuleSet
    from perfmon.hangs import Found
    from perfmon.rules import View

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Options:
    """Options of `analyze`."""

    specs: tuple[str, ...]
    logs: tuple[LogFile, ...] = field(default=(), kw_only=True)
    """More logs, with their names."""
    since: str | None = None
    until: str | None = None
    jobs: int | None = None
    """Processes that scan; None: one a core."""
    config: Config = field(default_factory=Config)
    detail: Detail = WHOLE


def examine(options: Options, progress: Progress | None = None) -> tuple[Diagnosis, View, RuleSet]:
    """Read complete logs; return the diagnosis, the samples that were judged, and the rules they were judged by.

    InputError or UsageError, with one clear line, where a SOURCE is wrong.
    """
    with _collector_paused():
        session = read(options, progress)
        snapshot, view = session.examined(options.since, options.until, options.detail)
        return snapshot, view, replace(session.knowledge, learned=session.baseline_note)


def read(options: Options, progress: Progress | None = None) -> Session:
    """Read complete logs into a session; InputError or UsageError for a wrong SOURCE."""
    logs, copies = without_copies(distinct([*discover(options.specs), *options.logs]))
    session = Session(options.config)
    try:
        _Reader(session, logs, options.jobs or usable_cores(), progress).read()
    except UnsplittableError:
        # A line longer than a range cannot be split into ranges: once more, as one stream.
        session = Session(options.config, session.scanner)
        _Reader(session, logs, 1, progress).read()
    _note_copies(session, copies)
    written = {log.name: time for log in logs if (time := _written(log)) is not None}
    times = {state.index: written[state.spec] for state in session.store.sources if state.spec in written}
    session.written = max(written.values(), default=None)
    note_hang(session, options.specs, times)
    return session


def _note_copies(session: Session, copies: Mapping[LogFile, Sequence[LogFile]]) -> None:
    """Note logs with the same content, on the first of them."""
    count = sum(map(len, copies.values()))
    if count:
        from perfmon.core import counted

        of, (copy, *_) = next(iter(copies.items()))
        more = "" if count == 1 else f", likewise {counted(count - 1, 'more log')}"
        state = next(state for state in session.store.sources if state.spec == of.name)
        state.note(f"{copy.name} has the same content{more}: read once")


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Pause the garbage collector: what is read has no cycles, and looking for them takes an eighth of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _size(log: LogFile) -> int:
    if log.path == STDIN or log.member is not None:
        return 0
    try:
        return log.path.stat().st_size
    except OSError:
        return 0


def _written(log: LogFile) -> float | None:
    """Time of the last write to a file in seconds since 1970; None for members of archives."""
    if log.path == STDIN or log.member is not None:
        return None
    try:
        return log.path.stat().st_mtime
    except OSError:
        return None


class _Reader:
    """Feeds all logs of a finished run to a session."""

    def __init__(self, session: Session, logs: Sequence[LogFile], jobs: int, progress: Progress | None) -> None:
        self._session, self._logs, self._jobs = session, logs, jobs
        self._progress = progress
        self._total = sum(_size(log) for log in logs)
        self._done = 0
        self._states: dict[LogFile, SourceState] = {}
        self._written: dict[LogFile, float] = {}

    def read(self) -> None:
        """Read big plain files with several processes, the others one by one."""
        self._written = {log: written for log in self._logs if (written := _written(log)) is not None}
        for log in (log for log in self._logs if log.compression != ARCHIVES):
            self._states[log] = self._session.add_source(log.name)
            self._states[log].ended = True
        first = next(iter(self._states.values()), None)
        big = [log for log in self._logs if self._jobs > 1 and self._is_big(log)]
        if big:
            with BulkScanner(self._session.scanner, self._jobs) as bulk:
                for log in big:
                    self._read_bulk(bulk, log, self._states[log])
        for log, item in read_logs([log for log in self._logs if log not in big]):
            state = self._states.get(log, first)  # an archive among logs is no log
            if state is not None:
                self._take(state, item)
        changes = [(state, self._written[log]) for log, state in self._states.items() if log in self._written]
        clocks = {state.index: self._session.clock(state) for state, _ in changes}
        date_tails(self._session.store, clocks, changes, clocks.keys(), None)
        for state, changed in changes:
            apply_mtime(state, changed)
        if all(state.bytes == 0 and not state.notes for state in self._states.values()):
            for state in self._states.values():
                state.note("empty")

    @staticmethod
    def _is_big(log: LogFile) -> bool:
        return log.member is None and log.compression is None and log.path != STDIN and splittable(log.path)

    def _read_bulk(self, bulk: BulkScanner, log: LogFile, state: SourceState) -> None:
        pieces = bulk.scan(log.path)
        _ = self._session.knowledge  # read while the workers scan
        for piece in pieces:
            if isinstance(piece, Cut):
                self._session.notice(state, damaged(log.name, TRUNCATED, piece.size))
                break
            self._session.take(state, piece.scanned, piece.line_base)
            self._advance(piece.scanned.size)

    def _take(self, state: SourceState, item: Block | Notice) -> None:
        self._session.add(state, item)
        if isinstance(item, Block):
            self._advance(len(item.data))

    def _advance(self, size: int) -> None:
        self._done += size
        if self._progress is not None and self._total:
            self._progress(min(self._done, self._total), self._total)


# --- Examples of signatures -------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class ExampleResult:
    """Result of one example."""

    signature: str
    example: str
    ok: bool
    text: str
    """The signatures that fired, and the expected ones where they differ."""


def run_examples(
    signature_id: str | None = None, signature_dirs: Sequence[Path] = (), format_dirs: Sequence[Path] = ()
) -> list[ExampleResult]:
    """The examples of one signature, or of all, judged by the built-in bands among all signatures."""
    config = Config(format_dirs=tuple(format_dirs), signature_dirs=tuple(signature_dirs))
    scanner = Scanner(load_packs(config.format_dirs))
    return [
        _run(signature.id, example, diagnose_texts(example.logs, config, scanner))
        for signature in load_signatures(config.signature_dirs)
        if signature_id in (None, signature.id)
        for example in signature.examples
    ]


def diagnose_texts(logs: Mapping[str, str], config: Config | None = None, scanner: Scanner | None = None) -> Diagnosis:
    """The diagnosis of logs that are given as texts, by name."""
    session = Session(config or Config(), scanner)
    for name, text in logs.items():
        state = session.add_source(name)
        state.ended = True
        session.feed(state, Block(text.strip("\n").encode() + b"\n", 0, 1))
    return session.snapshot()


def vocabulary(format_dirs: Iterable[Path] = ()) -> Vocabulary:
    """All names that the built-in formats, and those of these folders, can emit."""
    names: dict[str, set[str]] = {"metric": set(UPDATE_METRICS), "span": {UPDATE, *START_SPANS}, "mark": set()}
    kinds = {"metric": "metric", "span": "span", "open": "span", "close": "span", "mark": "mark"}
    for emit in (e for pack in load_packs(format_dirs) for pattern in pack.patterns for e in pattern.emit):
        if emit.kind in kinds:
            names[kinds[emit.kind]].add(emit.name)
            names["metric"] |= {emit.metric} - {""}
    return Vocabulary(*(frozenset(names[kind]) for kind in ("metric", "span", "mark")))


def _run(signature: str, example: Example, snapshot: Diagnosis) -> ExampleResult:
    fired = [f.signature for f in snapshot.findings if f.state != "pending"]
    verdict = snapshot.verdict.signature if snapshot.verdict else None
    ok = (signature in fired) == example.fires and (not example.verdict or verdict == signature)
    found = f"found {', '.join(dict.fromkeys(fired)) or 'nothing'}, verdict {verdict or 'none'}"
    wanted = f"{'' if example.fires else 'not '}{signature}{', as the verdict' if example.verdict else ''}"
    return ExampleResult(signature, example.name, ok, found if ok else f"{found}; expected {wanted}")


# --- The hang that a run ended in: when it began, the search for dumps of it, and the note for the store ---

TIMEOUT = "collective-timeout"
"""Id of the signature and cause of the failure."""
_STALL = "stall"
_EDGE_S = 1.0
_ROUNDING_S = 5.0
"""Lines have times in whole seconds, and are printed a moment before they are written."""
_UNDATED_S = 1800.0
"""Without timestamps, dumps may be older than the last line by the longest usual time-out of a group."""
_LINES_EACH = 3
"""Lines of each rank as evidence."""


def hang_begin(snapshot: Diagnosis) -> float | None:
    """The time of the last progress before the hang that a run is in or ended with, on its axis; None without one.

    Dumps of this hang are written after it; older ones are of an earlier attempt in the same folder.
    """
    run = snapshot.run
    begins = []
    for finding in snapshot.findings:
        starts = [moment.start_s for moment in finding.moments] or [finding.first_s]
        if finding.signature == TIMEOUT or (
            finding.signature == _STALL and finding.last_s >= run.end - run.start - _EDGE_S
        ):
            begins.append(run.start + max(starts))
    return max(begins, default=None)


def written_since(begin: float, logs: Iterable[tuple[float, float]]) -> float | None:
    """The time of the last progress in seconds since 1970, from its time on the run's axis; None without a log.

    `logs`: of each log the time of its last line on the axis, and of the last write to its file. The least distance of
    the two is that of the clocks: a file may be written to without a line that has a timestamp.
    """
    distance = min((written - last for last, written in logs), default=None)
    return None if distance is None else begin + distance - _ROUNDING_S


def timeouts_of(store: Store) -> list[tuple[Fields, str]]:
    """Fields and texts of the lines about collectives that timed out."""
    return [(one.fields, one.text) for one in store.failures.kept if one.cause == TIMEOUT]


def note_of(store: Store, found: Found) -> HangNote | None:
    """The note for the store, with the last lines of the ranks as evidence; None if the dumps do not decide."""
    if not found.why:
        return None
    states = {state.spec: state for state in store.sources}
    refs = tuple(
        (Ref(state.index, state.lines - line.after, line.offset), line.text)
        for lines in found.lines.values()
        for line in lines[-_LINES_EACH:]
        if (state := states.get(line.log)) is not None
    )
    return HangNote(found.ranks, found.why, refs)


def note_hang(session: Session, specs: Sequence[str], written: Mapping[int, float]) -> None:
    """Note the rank that is behind by flight-recorder dumps, if the run ended in a hang and they are of it.

    `written` are the times of the last writes to the logs, in seconds since 1970, by index of the log.
    """
    store = session.store
    timeouts = timeouts_of(store)
    if not timeouts and not any(Path(spec).expanduser().is_dir() for spec in specs):
        return  # most logs: the search need not be loaded
    from perfmon.hangs import HangSearch, find_dumps, usual_places

    places = usual_places(specs)
    if not (timeouts or any(find_dumps(folder) for folder in places.folders)):
        return
    snapshot = session.snapshot(detail=WATCHED)
    begin, newest = hang_begin(snapshot), max(written.values(), default=0.0)
    if begin is None:
        return
    since: float | None = None
    if snapshot.run.time_base is not TimeBase.NONE:
        shifts = session.lay().shifts
        dated = [state for state in store.sources if state.last is not None and state.index in written]
        since = written_since(
            begin, [((state.last or 0.0) + shifts.get(state.index, 0.0), written[state.index]) for state in dated]
        )
    if since is None:
        since = newest - _UNDATED_S if written else -inf
    store.hang = note_of(store, HangSearch().look(places, timeouts, since, newest if written else inf))
