"""Logs that are tables: the first line names the columns, all others are rows of numbers.

`step,train_loss,lr`, `step<tab>loss`, `epoch  train_loss  valid_loss  time`, `| epoch | loss |`, `┃ step ┃ loss ┃`.
A bare row has no text by which it could be found, so it is decided once, at the begin of a log, whether it is such a
table; only then its lines are read one by one. A table further down is none: answers and prompts hold such.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from perfmon.core import ESCAPES

BEGIN = 1 << 12
"""So many bytes from its begin a log's table may begin."""
HEAD = 1 << 14
"""And so many are looked at: names may be many, and the first row stands behind them."""
_LONGEST = 8000
_MOST_BETWEEN = 3
"""Lines between the names and the first row: rules, and what is empty."""
_MOST_COLUMNS = 400

_COUNTERS = (
    ("step", r"(?:global|total_train|optimi[sz]er|train(?:ing)?)_steps?|_step|num_updates"),
    ("step", r"steps?|iters?|iterations?|it|updates?|step_(?:idx|num|index)|iter_(?:idx|num)"),
    ("step", r"batch(?:es)?|batch_(?:idx|num|index)|mini_?batch"),
    ("timesteps", r"(?:total_|num_)?(?:env_)?timesteps?|env_steps?|frames"),
    ("episode", r"episodes?"),
    ("epoch", r"epochs?|ep"),
)
"""Counters of the rows by the name of their column, the first that there is."""
_STEPWISE = re.compile(r"(?i)step|iter|epoch|update|episode|batch|frames|\bep\b|\bit\b")
_FIGURE = re.compile(
    r"loss|acc|reward|return|(?:^|_|/)lr(?:$|_|/)|learning_rate|error|score|perplexity|ppl|norm|tok|samples|rew_|map|iou|auc|f1|kl"
)
"""Names that show that a table is about training, also where nothing is read of them."""
_EVALUATED = re.compile(r"(?:^|_|/)(?:val(?:id(?:ation)?)?|eval(?:uation)?|test|dev)(?:_|/|$)")
_OF_EVALUATION = re.compile(r"(?i)\s*(?:val|eval|test|dev)")
_PHASES = frozenset(("split", "phase", "mode", "stage", "subset"))
_CLOCKS = frozenset(("timestamp", "datetime", "date", "wall_time", "walltime", "_timestamp", "ts", "time"))
_ELAPSED = re.compile(r"(?:total_|wall_?|train_|time_|run)?(?:elapsed|runtime|total_time|train_time)(?:_time)?")
_UNIT = re.compile(r"[_\s]*[(\[_\s](ms|s|sec|secs|seconds)[)\]]?$")
_REWARD = re.compile(r"(?:rollout/)?(?:ep|episode)_(?:rew|reward|return)_mean|episode_?reward_?mean")
_TRAINED = re.compile(r"^(?:train(?:ing|er)?|time)[/_]|[/_](?:step|epoch|avg|mean)$")
_NAME = re.compile(r"[#\"'\s]*[A-Za-z_][\w /.@%()\[\]:-]{0,80}\Z")
_RULE = re.compile(r"[\s|:+=│║┃├┤┼╞╡╪┡┩╇━─═┬┴╭╮╰╯┏┓┗┛└┘┌┐╋┳┻╈┷┯╤╧╟╢╫-]*\Z")
_MARKDOWN = re.compile(r"\s*\|?\s*:?-{3,}:?\s*\|")
_BARS = re.compile(r"[|│┃║]")
_NUMBER = re.compile(
    r"[-+]?(?:\d{1,20}(?:\.\d{0,30})?|\.\d{1,30})(?:[eE][-+]?\d{1,3})?%?\Z|[-+]?(?:nan|inf(?:inity)?)\Z", re.IGNORECASE
)
_WHOLE = re.compile(r"\d{1,12}(?:\.0{1,6})?\Z")
_COUNT = re.compile(r"\d{1,12}(?:\.\d{1,12})?(?:e\+?\d{1,2})?\Z")
_CLOCK = re.compile(r"(?:\d{1,4}:)?\d{1,2}:\d\d(?:\.\d+)?\Z")
_EMPTY = frozenset(("", "-", "--", "n/a", "none", "null", "na"))
_SPOKEN = re.compile(r"(?i)\b(?:prompt|question|answer|assistant|user|completion|response|sample|example)\b|<\|")
"""Before a table that is text."""


class Row(NamedTuple):
    """The figures of a row, and its clock where a column has one."""

    values: dict[str, Any]
    clock: str


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a table."""

    split: str
    """`,`, a tab, `;`, `|` for any upright line, or a blank for any white space."""
    count: int
    counter: tuple[str, int]
    """The counter of the rows, and its column."""
    epoch: int
    """Column of the epoch, next to another counter; -1 for none."""
    figures: tuple[tuple[str, int, str], ...]
    """Names of figures (see `step_lines.py`), their columns and units."""
    results: tuple[tuple[int, bool], ...]
    """Columns of results, and whether they are of an evaluation."""
    clocks: tuple[int, ...]
    elapsed: int
    phase: int

    def row(self, line: str) -> Row | None:
        """The contents of a row, None for any other line."""
        cells = _cells(line, self.split)
        if len(cells) != self.count:
            return None
        kind, at = self.counter
        if (_COUNT if kind in ("epoch", "timesteps") else _WHOLE).match(cells[at]) is None:
            return None
        if self.split == " " and not all(map(_is_figure, cells)):
            return None
        results = [(of_evaluation, cells[column]) for column, of_evaluation in self.results]
        if not all(cell.lower() in _EMPTY or _NUMBER.match(cell) for _, cell in results):
            return None
        filled = [of_evaluation for of_evaluation, cell in results if cell.lower() not in _EMPTY]
        clock = next((cells[column] for column in self.clocks if len(cells[column]) > 8), "")
        if not filled:
            return None
        if all(filled) or (self.phase >= 0 and _OF_EVALUATION.match(cells[self.phase])):
            return Row({"evaluation": "1"}, clock)
        values: dict[str, Any] = {kind: cells[at]}
        for name, column, unit in self.figures:
            cell = cells[column]
            if name not in values and _NUMBER.match(cell) is not None and not cell.endswith("%"):
                values[name] = f"{cell}{unit}"
        if self.elapsed >= 0 and (_NUMBER.match(cells[self.elapsed]) or _CLOCK.match(cells[self.elapsed])):
            values["elapsed"] = cells[self.elapsed]
        if kind == "epoch":
            values |= next(({"epoch_time": cells[at]} for at in self.clocks if _CLOCK.match(cells[at])), {})
        elif self.epoch >= 0 and kind == "step" and _WHOLE.match(cells[self.epoch]) is not None:
            values["epoch"] = cells[self.epoch]
        return Row(values, clock)


class Heading:
    """The columns that the first bytes of one log name; it takes the blocks of the log in their order."""

    def __init__(self) -> None:
        self.columns: Columns | None = None
        self._seen = b""

    def take(self, data: bytes, offset: int, message: Callable[[str], str]) -> None:
        """The next block, or any behind the first bytes. `message` takes clocks and prefixes off a line."""
        if offset >= HEAD:
            return
        if not offset:
            self._seen, self.columns = b"", None
        if self.columns is None and len(self._seen) == offset:
            self._seen += data[: HEAD - offset]
            self.columns = _columns_in(self._seen[: self._seen.rfind(b"\n") + 1], message)


def _columns_in(head: bytes, message: Callable[[str], str]) -> Columns | None:
    """The columns of the table that a log begins with."""
    lines = [ESCAPES.sub("", line[:_LONGEST].decode("utf-8", "replace")) for line in head.split(b"\n")]
    at, first = 0, True
    for number, (line, raw) in enumerate(zip(lines, head.split(b"\n"), strict=True)):
        if at >= BEGIN:
            break
        at += len(raw) + 1
        if _RULE.match(line) is not None:
            continue
        if _STEPWISE.search(line) is not None:
            columns = columns_of(message(line))
            if columns is not None and _goes_on(columns, lines[number + 1 :], message, first):
                return columns
        if _SPOKEN.search(line) is not None:
            break
        first = False
    return None


def _goes_on(columns: Columns, lines: list[str], message: Callable[[str], str], first: bool) -> bool:
    """True where rows follow the names. Those of Markdown must stand first in a log: so tables in texts look."""
    for line in lines[: _MOST_BETWEEN + 1]:
        if _MARKDOWN.match(line) is not None and not first:
            return False
        if _RULE.match(line) is None:
            return row_of(columns, line, message) is not None
    return False


def row_of(columns: Columns, line: str, message: Callable[[str], str]) -> Row | None:
    """The row that a line is, with or without a clock and prefixes before it: its own clock may be a column."""
    return columns.row(line) or columns.row(message(line))


def columns_of(line: str) -> Columns | None:
    """The columns that a line names; None where it names none, or none that counts next to a figure."""
    line = line.strip("\r\n")
    split = "|" if _BARS.search(line) else next((mark for mark in ("\t", ",", ";") if mark in line), " ")
    cells = _cells(line, split)
    if not 1 < len(cells) <= _MOST_COLUMNS or not all(map(_NAME.match, cells)):
        return None
    names = [re.sub(r"[\s-]+", "_", cell.strip("#\"' ").lower()) for cell in cells]
    counters = [
        (kind, at) for kind, regex in _COUNTERS for at, name in enumerate(names) if re.fullmatch(regex, _bare(name))
    ]
    results = tuple((at, _EVALUATED.search(name) is not None) for at, name in enumerate(names) if _FIGURE.search(name))
    results = tuple(result for result in results if result[0] not in {at for _, at in counters})
    if len(set(names)) != len(names) or not counters or not results:
        return None
    figures = [(found, at) for at, name in enumerate(names) if (found := _figure(name)) is not None]
    return Columns(
        split=split,
        count=len(cells),
        counter=counters[0],
        epoch=next((at for kind, at in counters[1:] if kind == "epoch"), -1),
        figures=tuple((name, at, unit) for (name, unit), at in figures),
        results=results,
        clocks=tuple(at for at, name in enumerate(names) if name in _CLOCKS),
        elapsed=next((at for at, name in enumerate(names) if _ELAPSED.fullmatch(_UNIT.sub("", _bare(name)))), -1),
        phase=next((at for at, name in enumerate(names) if name in _PHASES), -1),
    )


def _bare(name: str) -> str:
    """A name without the part of the run that it is of: `train/global_step`, `time/total_timesteps`."""
    return name.rsplit("/", 1)[-1] if name.startswith(("train", "time", "trainer", "rollout")) else name


def _figure(name: str) -> tuple[str, str] | None:
    """The kind and unit of a column's figures; None for those that are not read, as results of evaluations."""
    if _EVALUATED.search(name) is not None:
        return None
    unit = _UNIT.search(name)
    if unit is not None and _figure_of(name) is None:
        base = name[: unit.start()]
        found = "step_time" if base in ("step", "iter", "iteration", "batch", "dt") else _plain_figure(base)
        return (found, "ms" if unit[1] == "ms" else "s") if found in ("step_time", "data_time") else None
    found = _plain_figure(name)
    if found in ("eta", "per_s", "mfu", "quality", None):
        return None
    return found, "s" if found in ("step_time", "data_time") else ""


def _figure_of(name: str) -> str | None:
    from ..formats.step_lines import figure_of  # few logs are tables, and its regexes take long to compile

    return figure_of(name)


def _plain_figure(name: str) -> str | None:
    if _REWARD.fullmatch(name) is not None:
        return "reward"
    bare = _TRAINED.sub("", name)
    return _figure_of(name) or _figure_of(bare) or _figure_of(_TRAINED.sub("", bare))


def _cells(line: str, split: str) -> list[str]:
    if split == " ":
        found = re.split(r"\s{2,}|\t", line.strip())
        return found if len(found) > 1 and " " in "".join(found) else line.split()
    if split == "|":
        cells = _BARS.split(line.strip())
        cells = cells[1:] if not cells[0].strip() else cells
        cells = cells[:-1] if cells and not cells[-1].strip() else cells
        return [cell.strip() for cell in cells]
    return [cell.strip(" \"'\r") for cell in line.strip("\r\n").split(split)]


def _is_figure(cell: str) -> bool:
    return _NUMBER.match(cell) is not None or _CLOCK.match(cell) is not None or cell.lower() in _EMPTY
