"""Cases: the logs of a run in compact notation, and the truth about it. `README.md` shows the notation.

A case is a TOML file in a folder that is named after its class. Its logs are made of parts; a part repeats its text
`count` times, `every` seconds apart, and figures in it are written as `${...}`. The same file gives the same bytes on
every machine: chance comes from a generator that is seeded with the case's name.
"""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
_FIGURE = re.compile(r"\$\{([^}]*)\}")
_NUMBER = r"-?(?:\d+(?:\.\d+)?|\.\d+)(?:e-?\d+)?"
_LINEAR = re.compile(rf"n(?:\*(?P<by>{_NUMBER}))?(?P<plus>[+-]{_NUMBER})?")
_RANGE = re.compile(rf"(?P<low>{_NUMBER})(?:\.\.(?P<high>{_NUMBER}))?(?:~(?P<noise>{_NUMBER})%)?")
_CONTROL = str.maketrans({"␛": "\x1b", "␍": "\r", "␀": "\0", "⇥": "\t"})
_AFTER_A_DEATH_S = 30.0
_BAR = " ▏▎▍▌▋▊▉█"


@dataclass(frozen=True, slots=True)
class Truth:
    """What a careful reader says; a list holds the answers that are right, the best one first."""

    state: tuple[str, ...]
    verdict: tuple[str, ...]
    """Signature ids, or none, learning, watch, unreadable."""
    file_verdict: tuple[str, ...] = ()
    """What the finished files alone can show; empty: `verdict`. For a log that ends where the trouble starts."""
    cause: tuple[str, ...] = ()
    """Failure cause of a death; empty where there was none."""
    rank: int | None = None
    host: str | None = None
    component: str | None = None
    """Of what failed, where lines tell."""
    never: frozenset[str] = frozenset()
    """Signatures and causes that must not be named: what is only an echo of something else, or no failure at all."""
    also: frozenset[str] = frozenset()
    """Findings beside the verdict that are right, too."""
    goal: str | None = None
    """The progress as the report tells it, without the time that is left: `19 of 20 epochs`."""
    runs: int | None = None
    """How many runs the files hold."""
    lost_s: float | None = None
    """What the verdict costs, give or take `tolerance`."""
    tolerance: float = 0.25
    named_within_s: float | None = None
    """Live: seconds from the onset until the verdict stands."""
    live_state: tuple[str, ...] = ()
    """Live: the state after `watched_s` of looking on; empty: `state`."""
    meanwhile: frozenset[str] = frozenset()
    """Live: verdicts and states that are right before the end: what looked like a death until the run came again."""


@dataclass(frozen=True, slots=True)
class CaseLog:
    """A log: what was written, and when, in seconds since the case began."""

    name: str
    pieces: tuple[tuple[float, bytes], ...]

    @property
    def data(self) -> bytes:
        """All of it."""
        return b"".join(piece for _, piece in self.pieces)


@dataclass(frozen=True, slots=True)
class Case:
    """A run and the truth about it."""

    id: str
    """`class/name`."""
    title: str
    begins: datetime
    logs: tuple[CaseLog, ...]
    truth: Truth
    onset_s: float | None
    """When what is to be noticed began."""
    watched_s: float
    """Live: so long somebody looks on after the last line."""

    @property
    def group(self) -> str:
        """The class."""
        return self.id.partition("/")[0]

    @property
    def ends_s(self) -> float:
        """When the last line was written."""
        return max((log.pieces[-1][0] for log in self.logs if log.pieces), default=0.0)

    @property
    def harmless(self) -> bool:
        """Nothing is wrong: whatever is found is a false alarm."""
        return not {"failed", "stalled"} & set(self.truth.state) and self.truth.verdict[0] in HARMLESS


HARMLESS = ("none", "learning", "unreadable")


@cache
def cases() -> tuple[Case, ...]:
    """All of them, by class and name."""
    return tuple(read(path) for path in sorted(FOLDER.glob("*/*.toml")))


def read(path: Path) -> Case:
    """The case of a file; KeyError or ValueError where it says something that is not known."""
    result = tomllib.loads(path.read_text("utf-8"))
    name = f"{path.parent.name}/{path.stem}"
    begins = result.get("begins", datetime(2026, 3, 4, 9, 15, 20)).replace(tzinfo=UTC)
    logs, onsets = [], []
    for log in result["log"]:
        for each in log.get("each", [None]):
            writer = _Writer(f"{name} {log['name']} {each}", begins, log.get("begins_s", 0.0), each)
            for part in log["part"]:
                writer.write(part)
            logs.append(CaseLog(_filled(log["name"], {"each": each}), tuple(sorted(writer.pieces, key=itemgetter(0)))))
            onsets += writer.onsets
    onset = result.get("onset_s", min(onsets, default=None))
    if onset is None and "named_within_s" in result["truth"]:
        onset = max((log.pieces[-1][0] for log in logs if log.pieces), default=0.0)
    unknown = result.keys() - {"title", "begins", "truth", "log", "onset_s", "watched_s"}
    if unknown:
        raise ValueError(f"{path}: unknown {', '.join(sorted(unknown))}")
    truth = _truth(result["truth"])
    watched_s = result.get("watched_s", _AFTER_A_DEATH_S if "failed" in truth.state else 0.0)
    return Case(name, result["title"], begins, tuple(logs), truth, onset, watched_s)


def _truth(result: Mapping[str, Any]) -> Truth:
    lists = {
        key: _listed(result[key])
        for key in ("state", "verdict", "file_verdict", "cause", "live_state")
        if key in result
    }
    sets = {key: frozenset(result[key]) for key in ("never", "also", "meanwhile") if key in result}
    rest = {key: value for key, value in result.items() if key not in lists and key not in sets}
    return Truth(**{**rest, **lists, **sets})


def _listed(value: str | list[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _filled(text: str, names: Mapping[str, object]) -> str:
    return _FIGURE.sub(lambda found: str(names[found[1]]), text)


class _Writer:
    """Writes the parts of one log, sequentially."""

    def __init__(self, seed: str, begins: datetime, at_s: float, each: object) -> None:
        self.pieces: list[tuple[float, bytes]] = []
        self.onsets: list[float] = []
        self._chance = random.Random(seed)
        self._begins, self._at_s, self._of_log = begins, at_s, each
        self._part_s = at_s
        self._n: float = 0
        self._share = 0.0
        self._each: object = None
        self._from: float = 0

    def write(self, part: Mapping[str, Any]) -> None:
        """A part: `text`, repeated `count` times.

        `after` seconds pass before it, `every` between repetitions (give or take the share `jitter`), `pace` between
        the lines of a text; `n` counts from `from` by `by`. With `each` a repetition writes its text for every value.
        `at` sets the clock, in seconds since the case began. `onset` says that what is to be noticed begins or ends
        here.
        """
        unknown = part.keys() - _PART_KEYS
        if unknown:
            raise ValueError(f"unknown {', '.join(sorted(unknown))}")
        count, every, jitter, pace = (part.get(key, usual) for key, usual in _PART_USUAL.items())
        self._at_s = part.get("at", self._at_s) + part.get("after", 0.0)
        self._part_s, self._from = self._at_s, part.get("from", 1)
        if part.get("onset") == "begin":
            self.onsets.append(self._at_s)
        for number in range(count):
            if number:
                self._at_s += every * (1.0 + jitter * self._chance.uniform(-1.0, 1.0))
            self._n = self._from + number * part.get("by", 1)
            self._share = number / (count - 1) if count > 1 else 0.0
            for each in part.get("each", [self._of_log]):
                self._each = each
                self._lines(part["text"], pace)
        if part.get("onset") == "end":
            self.onsets.append(self._at_s)

    def _lines(self, text: str, pace: float) -> None:
        lines = text.splitlines(keepends=True) if pace else [text]
        for number, line in enumerate(lines):
            self._at_s += pace if number else 0.0
            made = _FIGURE.sub(lambda found: self._figure(found[1]), line)
            self.pieces.append((self._at_s, made.translate(_CONTROL).encode()))

    def _figure(self, result: str) -> str:
        word, _, rest = result.partition(" ")
        if word in _WORDS:
            return _WORDS[word](self, rest)
        if word == "t" or re.fullmatch(r"t[+-][\d.]+", word):
            return self._clock(float(word[1:] or 0.0), rest)
        figure, _, style = result.partition(":")
        if linear := _LINEAR.fullmatch(figure):
            value = self._n * float(linear["by"] or 1) + float(linear["plus"] or 0)
            return format(int(value) if value == int(value) and not style.endswith(("f", "e", "E")) else value, style)
        if figures := _RANGE.fullmatch(figure):
            low = float(figures["low"])
            high = float(figures["high"]) if figures["high"] else low
            noise = float(figures["noise"] or 0.0) / 100.0
            value = (low + (high - low) * self._share) * (1.0 + noise * self._chance.uniform(-1.0, 1.0))
            return format(round(value) if style.endswith("d") else value, style or ".4f")
        raise ValueError(f"${{{result}}} is no figure")

    def _clock(self, ahead_s: float, style: str) -> str:
        moment = self._begins + timedelta(seconds=self._at_s + ahead_s)
        if style == "epoch":
            return f"{moment.timestamp():.3f}"
        for digits in (3, 9):
            fraction = f"{moment.microsecond:06d}{'000' if digits == 9 else ''}"[:digits]
            style = style.replace(f"%{digits}f", fraction)
        style = style.replace("%-m", str(moment.month)).replace("%-d", str(moment.day))
        return moment.strftime(style)

    def _tqdm(self, result: str) -> str:
        """A progress bar: `tqdm TOTAL [UNIT [SECONDS BEFORE]]`; its elapsed time is that since the part began."""
        given = result.split()
        total, unit, before = (*given, *("it", "0")[len(given) - 1 :])
        done, of, elapsed = int(self._n), int(total), self._at_s - self._part_s + float(before)
        made = done - (0 if float(before) else self._from)
        tenths = done / of * 10
        bar = "█" * int(tenths) + (_BAR[int(tenths % 1 * 8)] if tenths % 1 else "")
        rate, left = "?", "?"
        if made > 0 and elapsed > 0:
            speed = made / elapsed
            left = _duration((of - done) / speed)
            rate = f"{speed:5.2f}" if speed >= 1 else f"{1 / speed:5.2f}"
        per = f"{unit}/s" if rate == "?" or made / max(elapsed, 1e-9) >= 1 else f"s/{unit}"
        return f"{100 * done // of:3d}%|{bar:<10}| {done}/{of} [{_duration(elapsed)}<{left}, {rate}{per}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:02d}:{rest:02d}"


def _elapsed(writer: _Writer, result: str) -> str:
    return _duration(writer._at_s - writer._part_s + float(result or 0.0))


def _hours(writer: _Writer, result: str) -> str:
    minutes, seconds = divmod(int(writer._at_s - writer._part_s + float(result or 0.0)), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}"


_WORDS: dict[str, Callable[[_Writer, str], str]] = {
    "each": lambda writer, _: str(writer._each),
    "tqdm": _Writer._tqdm,
    "elapsed": _elapsed,
    "hours": _hours,
    "pick": lambda writer, result: writer._chance.choice(result.split("|")),
    "hex": lambda writer, result: "".join(writer._chance.choice("0123456789abcdef") for _ in range(int(result))),
    "rand": lambda writer, result: str(writer._chance.randint(*map(int, result.split()))),
}
_PART_USUAL: dict[str, Any] = {"count": 1, "every": 0.0, "jitter": 0.0, "pace": 0.0}
_PART_KEYS = {*_PART_USUAL, "text", "after", "at", "each", "from", "by", "onset"}
