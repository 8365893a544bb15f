"""An engine that makes tokens of nothing, but at the pace and within the limits of a real one.

What is real about it: slots, a throughput that sequences share, a cache that fills, sequences that are preempted when
it is full, and generation that stands still while weights are loaded.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from . import throttle
from .clocks import true_monotonic
from .journal import Journal
from .settings import Knobs

TICK_S = 0.05
_CHUNK_S = 1.0
_CACHE_FULL = 0.9
_PIECE_S = 0.2
_ENDLESS = 10**9
_GIANTS = 2


@dataclass(eq=False, slots=True)
class Sequence:
    """One generation."""

    prompt: int
    wanted: int
    most: int
    version: int = 0
    """The policy that it began with."""
    made: float = 0.0
    reported_at: float = 0.0
    news: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def held(self) -> float:
        """Tokens that it has in the cache."""
        return self.prompt + self.made

    @property
    def over(self) -> bool:
        """It has ended, or was cut."""
        return self.made >= min(self.wanted, self.most)

    @property
    def reason(self) -> str:
        """Why it ended, as servers say it."""
        return "length" if self.wanted > self.most else "stop"


@dataclass(slots=True)
class Counts:
    """What is counted since the start."""

    prompt_tokens: int = 0
    generation_tokens: float = 0.0
    preemptions: int = 0
    finished: dict[str, int] = field(default_factory=lambda: {"stop": 0, "length": 0, "abort": 0})


class Engine:
    """Runs sequences, tick by tick."""

    def __init__(self, knobs: Callable[[], Knobs], journal: Journal) -> None:
        self._knobs, self._journal = knobs, journal
        self.running: list[Sequence] = []
        self.waiting: deque[Sequence] = deque()
        self.counts = Counts()
        self.version = 0
        self.stopped = False
        """It has been told to end: what it loads is not waited for."""
        self._loading = False
        self._giants: list[Sequence] = []
        self._not_made = {"cache": 0.0, "cap": 0.0}
        """Seconds by what kept sequences waiting; they go to the journal in pieces."""
        self._busy_since: float | None = None

    @property
    def kv_usage(self) -> float:
        """Share of the cache that is in use."""
        return min(1.0, self._held() / self._knobs().kv_tokens)

    def _held(self) -> float:
        return sum(sequence.held for sequence in self.running)

    def add(self, sequence: Sequence) -> None:
        """A request has come."""
        self.waiting.append(sequence)
        self.counts.prompt_tokens += sequence.prompt

    def abort(self, sequence: Sequence) -> None:
        """Nobody wants it any more."""
        if sequence in self.running:
            self.running.remove(sequence)
        elif sequence in self.waiting:
            self.waiting.remove(sequence)
        self.counts.finished["abort"] += 1

    async def run(self) -> None:
        """Goes on until it is cancelled."""
        before = true_monotonic()
        while True:
            await asyncio.sleep(TICK_S)
            now = true_monotonic()
            if not self._loading:
                self._tick(self._knobs(), now, now - before)
            before = now

    def _tick(self, knobs: Knobs, now: float, took_s: float) -> None:
        if knobs.stuck and not self._giants and len(self.running) > _GIANTS:
            self._giants = self.running[:_GIANTS]
            for giant in self._giants:
                giant.wanted = giant.most = _ENDLESS
        if not self._giants:
            self._admit(knobs)
        rate, capped = self._rate(knobs), len(self.running) >= knobs.slots
        made_tps = rate * len(self.running)
        for sequence in self.running:
            if sequence not in self._giants or sequence.held < 0.1 * knobs.kv_tokens:
                sequence.made += rate * took_s
            self.counts.generation_tokens += rate * took_s
            if sequence.over or now - sequence.reported_at >= _CHUNK_S:
                sequence.reported_at = now
                sequence.news.set()
        for sequence in [sequence for sequence in self.running if sequence.over]:
            self.running.remove(sequence)
            self.counts.finished[sequence.reason] += 1
        self._preempt(knobs)
        self._account(knobs, made_tps, took_s, capped)
        self._note_busy()

    def _rate(self, knobs: Knobs) -> float:
        """Tokens a second of each sequence."""
        if not self.running:
            return 0.0
        return min(knobs.sequence_tokens_per_s, knobs.tokens_per_s / len(self.running))

    def _admit(self, knobs: Knobs) -> None:
        """The first come first, but what does not fit holds nothing up that does."""
        room = knobs.kv_tokens - self._held()
        for sequence in list(self.waiting):
            if len(self.running) >= knobs.slots:
                return
            if sequence.held <= room:
                self.waiting.remove(sequence)
                if sequence.made == 0.0:
                    sequence.version = self.version
                room -= sequence.held
                self.running.append(sequence)

    def _preempt(self, knobs: Knobs) -> None:
        while self._held() > knobs.kv_tokens and len(self.running) > 1:
            self.waiting.appendleft(self.running.pop())
            self.counts.preemptions += 1

    def _account(self, knobs: Knobs, made_tps: float, took_s: float, capped: bool) -> None:
        """Of a second that the full cache or the cap keeps sequences waiting, the share of tokens that is not made."""
        full = self._held() > _CACHE_FULL * knobs.kv_tokens
        if self.waiting and (full or capped):
            lost_s = took_s * max(0.0, 1.0 - made_tps / knobs.tokens_per_s)
            self._not_made["cache" if full else "cap"] += lost_s
        now = self._journal.now()
        for kind, lost_s in self._not_made.items():
            if lost_s > _PIECE_S:
                self._journal.stretch(kind, now - lost_s, now)
                self._not_made[kind] = 0.0

    def _note_busy(self) -> None:
        """A stretch in which there was something to generate goes to the journal when it is over."""
        now = self._journal.now()
        if self.running and self._busy_since is None:
            self._busy_since = now
        elif not self.running and self._busy_since is not None:
            self._journal.stretch("busy", self._busy_since, now)
            self._busy_since = None

    async def load(self, weights: Path, version: int) -> None:
        """Loads weights; generation stands still meanwhile. Raises OSError."""
        self._loading = True
        try:
            with self._journal.during("load"):
                await asyncio.to_thread(throttle.read, weights, lambda: self._knobs().load_mib_s, lambda: self.stopped)
            self.version = version
        finally:
            self._loading = False
