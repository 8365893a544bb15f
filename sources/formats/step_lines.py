"""Reads the step line of a trainer that no pack knows: a step or iteration with its loss, pace or throughput.

`Step 12/500 | loss: 3.25 | 1.83 s/it`, `{"step": 12, "loss": 3.25}`, `iter=12, train_loss=3.25, 41 samples/s`. A line
counts only where it contains a number of a step and at least one figure that a step has: a loss, a pace, a reward, an
accuracy. Prose, configurations, evaluations, source code and inner loops are none: a miss costs less than a figure
that is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from .step_memory import memory_in

_NUMBER = (
    r"(?>[-+]?(?:(?:\d{1,3}(?:,\d{3})++|\d+)(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|nan|inf(?:inity)?))"
)
_LONGEST = 2000

_STEP = re.compile(
    r"""(?ix)(?<![\w./-])(?=["'gtocsinue])["']?(?:(?<=["'])_)?
    (?P<before>(?:global|train(?:ing)?|optim(?:izer)?|completed)[ _/])?
    (?P<word>global_step|step|steps|iter|iters|iteration|iterations|itr|num_updates|updates?|upd|episodes?
        |it(?=\s?[=:\#]\s{0,8}\d|\s{1,8}\d+(?:\s?(?:/\s?\d|[|,;:])|\s{1,8}(?:train(?:ing)?[ _])?(?:loss|nll|lr)\s)))
    (?:[ _](?:index|idx|number|num))?["']?
    \s?[:=\#]?\s{0,8}["'(\[]?\s{0,8}(?P<n>\d[\d,]*)(?:\s{0,8}(?:/|\bof\b)\s{0,8}(?P<of>\d[\d,]*))?
    (?![\d.]*(?:\d|e[-+]?\d|\s?(?:ms|s|sec|seconds|min|%|x)\b|/s))"""
)
_NO_STEP = re.compile(
    r"(?i)(?:max|num|total|warm-?up|save|saving|eval|val|log|logging|per|every|accum\w*|micro|inner|decay|example|"
    r"sampling|denois\w+|inference|diffusion|first|last|previous|next|resum\w+|from|best|until|after|at)"
    r"[ _-]?(?:model )?$"
)
_BATCH = re.compile(
    r"""(?ix)\b(?:epoch|ep)\b["']?\s?[:=]?\s{0,4}\[?\d+.{0,40}?
    (?<![\w/])(?<!ffective[ ])(?<!otal[ ])(?<!lobal[ ])
    (?:batch(?:[ _]?(?:idx|index))?|mini-?batch)\b["']?\s?[:=]?\s{0,8}[\[(]?
    (?P<n>\d+)(?:\s{0,4}/\s{0,4}(?P<of>\d+))?"""
)
_BATCHES = re.compile(
    r"(?i)\b(?:mini-?)?batch(?:[ _]?(?:idx|index))?\s?[:=]?\s{0,8}[\[(]?(?P<n>\d+)\s{0,4}/\s{0,4}(?P<of>\d+)"
)
_OF_BATCHES = re.compile(r"(?i)(?<![\d./])(?P<n>\d+)\s{0,4}/\s{0,4}(?P<of>\d+) (?:mini-?)?batches\b")
"""`| epoch   3 |   400/ 2983 batches |`, PyTorch's language model and what was made of it."""
_FIRST_BATCH = re.compile(r"(?i)^\W{0,4}(?:mini-?)?batch\s?[:=#]?\s{0,8}(?P<n>\d+)(?P<of>(?!))?\b(?![\d.]*\d)")
_BATCH_OF_EPOCH = re.compile(r"(?i)\b(?:mini-?)?batch\s?[:=#]?\s{0,4}(?P<n>\d+)(?P<of>(?!))? (?:of|in) epoch\b")
_SHORT_NAME = re.compile(r"(?i)\W{0,2}(?:itr?|upd)\b")
"""Simulations count so, too: `it 500 dt 0.001` has its time step, and no loss."""
_LEADING = re.compile(r"^\W{0,8}\[?(?P<n>\d+)/(?P<of>\d+)\]?(?=[\s:|,-])(?!\s\d\d:\d\d)")
"""`[50/3000] Train loss: 2.5`."""
_FRACTION = re.compile(r"(?i)\bepoch\b\W{0,4}\d+.{0,40}?[\[(]\s{0,8}(?P<n>\d+)\s{0,4}/\s{0,4}(?P<of>\d+)\s{0,4}[\])%(]")
_BARE = re.compile(
    r"(?:(?:^|[|>:\]\[(-])\s{0,8}\[?|\s(?=[A-Za-z]))(?:it|st|bt|[bsi])?(?P<n>\d{1,9})/(?P<of>\d{2,9})(?=[\]),;:]?(?:\s(?!\d\d:)|$))"
)
"""`| 626/36000 |`, `b626/36000`: with a loss and another figure of training."""
_SHARE = re.compile(r"\(\d{1,3}(?:\.\d+)?%")
"""Behind a fraction of a data set: such loops count samples."""
_EPOCH = re.compile(
    r"(?i)\bepochs?(?:\b[\s:=\[(#\"']{1,4}|(?=\d{1,6}/\d))(?P<n>\d+)(?![\d.]*\.\d)(?:\s{0,4}(?:/|\bof\b)\s{0,4}(?P<of>\d+))?"
)

_EP = re.compile(r"(?i)(?<![\w./-])ep[\s:=#]{1,2}(?P<n>\d+)(?![\d.]*\.\d)(?:/(?P<of>\d+))?(?=[\s|,;])")
"""An epoch where the number of a step is behind it; alone it may be an episode."""
_OF_EPISODES = re.compile(r"(?i)(?<![\w/])(?:r|rew\w*|ret\w*|score|(?:p|v|policy|value|actor|critic)_?loss)\s?[:=]")

_TOOK = re.compile(
    r"(?i)(?:(?<=[\s|,])\((?:took |in )?(?P<time>\d{1,6}(?:\.\d{1,6})?) ?s(?:ec(?:onds?)?)?\)\s*$"
    r"|\b(?:completed|finished|done|took) (?:in )?(?P<in>\d{1,6}(?:\.\d{1,6})?) ?s(?:ec(?:onds?)?)?(?=[\s,;|.]|$))"
)
"""`(5.0s)` at the end of an epoch's line."""

_NAMES = {
    "loss": (
        r"(?:train(?:ing)?[ _/])?(?:loss)|lm[ _]loss|total_loss|avg_loss|avr_loss|mean_loss|step_loss|nll_loss|ce_loss"
        r"|loss_train(?:ing)?|policy_loss|pg_loss|actor_loss|act_loss|reduced_train_loss|loss/train|epoch_loss|batch_loss|running_loss"
    ),
    "loss_of_kind": (
        r"(?:train(?:ing)?[ _])?(?:nll|xent|cross[ _-]?entropy"
        r"|(?:ce|xe|obj(?:ective)?|(?<!time[ _])cost|elbo)(?=[\"']?\s?[:=]))"
    ),
    "lr": r"lr|learning[ _]rate|base_lr",
    "grad_norm": r"(?:(?:mean|avg|average)[ _])?grad(?:ient)?[ _]norm|gn|g_?norm|grad_?norm|global_norm|total_norm",
    "step_time": (
        r"m?s/batch|sec/batch|(?:avg_)?batch_cost|"
        r"step[ _]time|iter(?:ation)?[ _]time|time/iter|time/step|time per (?:step|iteration)|per_step_time"
        r"|batch[ _]time|sec/step|sec/it|s/step|s/it|dt|step_s|train_step_timing|step_duration|per-step[ _]time"
        r"|elapsed[ _]time[ _]per[ _]iteration|time_diff"
    ),
    "tps": (
        r"(?:global[ _])?(?:tokens?|tok|toks)(?:/|_per_|[ _]per[ _])s(?:ec(?:ond)?)?(?:_per_gpu|/gpu|/device)?|tps|tgs"
        r"|tokens_per_second_per_gpu"
    ),
    "samples": r"(?:samples?|imgs?|images?|examples?|seqs?|sequences?|smp)(?:/|_per_|[ _]per[ _])s(?:ec(?:ond)?)?",
    "mfu": r"(?:bf\d\d_)?mfu",
    "eta": r"eta|remaining|remaining[ _]time|time[ _](?:left|remaining)",
    "data_time": (
        r"data[ _]time|(?:avg_)?(?:reader|data)_cost|data_s|dt_data|dataloader_time|load(?:ing)?_time"
        r"|data(?:[ _]?load\w{0,3})?"
    ),
    "reward": (
        r"(?:train[ _])?(?:(?:total|mean|avg\.?|average|episode|episodic|ep|cumulative|running)[ _])*"
        r"(?:rew(?:ard)?|return|score)s?"
    ),
    "per_s": r"(?:it|iters?|iterations|steps?)(?:/|_per_|[ _]per[ _])s(?:ec(?:ond)?)?",
    "quality": (
        r"(?:train(?:ing)?[ _])?(?:(?:avg|mean|token|seq|top-?\d|batch|categorical|sparse_categorical|binary)[ _])?"
        r"(?:acc(?:uracy)?|acc@?\d|top-?\d|f1(?:[ _-]score)?|auc|auroc|m?ap|m?iou|psnr|ssim|mae|mse|rmse"
        r"|wer|cer|bleu|error|err)"
    ),
    "perplexity": r"(?:train(?:ing)?[ _])?(?:ppl|perplexity)",
    "q_value": r"(?:(?:mean|avg|average)_)?q_?(?:values?|mean|avg)",
    "critic_loss": r"(?:q|qf|critic)_loss",
    "part": (
        r"(?!val|eval|test|dev|best|min)[a-z]{1,16}(?:_[a-z]{1,16}){0,2}_loss(?:_[a-z0-9]{1,16}){0,2}|[pv]loss|loss_[a-z0-9]{1,16}"
    ),
}
_CLOCK = r"(?:\d+ days?, )?\d+:\d\d(?::\d\d)?(?:\.\d+)?|(?:\d+[dhms] ?){1,4}(?![\w.])"
_FIELD = re.compile(
    r"(?i)(?<![\w/.-])(?=[\"'a-z])"  # a third of the time: the names are not tried where none begins
    r"[\"']?(?:(?:train(?:ing|er)?|perf(?:ormance)?|optim(?:izer)?|throughput|timing|stats)[/_.])?(?:"
    + "|".join(f"(?P<{name}>{names})" for name, names in _NAMES.items())
    + r")(?:_(?P<in_unit>ms|s|sec))?[\"']?(?P<mark>\s?\(\w{1,3}\))?"
    + r"(?P<mark_before>(?:\s(?:is|was))?\s?[:=]\s{0,8}|\s{1,8})"
    + rf"(?:(?!(?:nan|inf(?:inity)?)\b)[a-zA-Z_][\w.]{{0,20}}\()?[\"'\[]?(?:(?P<clock>{_CLOCK})|(?P<value>{_NUMBER}))"
    + r"[\"'\])]{0,2}(?:(?-i:(?P<thousands>[KMBGk]))|\s?(?P<unit>%|ms|min|sec|s|m|h))?"
    + r"(?![\w/]*[A-Za-z]|\s?[kKMGT]i?B\b)"
)
_TIME_OF_DATA = re.compile(
    rf"(?i)(?<![\w/.-])(?<!\w )[\"']?time[\"']?\s?[:=]\s{{0,8}}(?P<value>{_NUMBER})"
    r"\s?(?P<unit>ms|s|sec)?(?![\w:]*[A-Za-z:])"
)
"""`data_time: 0.25, time: 0.53`: next to the wait for data, a bare `time` is the duration of the same step."""
_RATE = re.compile(
    rf"(?i)(?<![\w.])(?=[-+.\dni])(?P<value>{_NUMBER})(?:\s?(?P<thousands>[km])\s?(?=[a-z]{{3,8}}/s)|\s?)"
    r"(?:(?P<tps>(?:tokens?|toks?)/s(?:ec)?)|(?P<samples>(?:samples?|imgs?|images?|examples?|seqs?)/s(?:ec)?)"
    r"|(?P<per_s>(?:it|iters?|steps?)/s(?:ec)?)|(?P<step_time>(?:s|sec|ms)/(?:it|iter|step)|sec/batch))\b"
)
_DIVERGED = re.compile(r"(?i)[-+]?(?:nan|inf)")
"""Such a loss counts among other figures even where its step is not known."""
_UNIT = re.compile(r"(?i) ?(?:ms|s|sec|min|m|h|%)?")
_THOUSANDS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9}
_CODE = re.compile(
    r"""print\(|\bself\.|\bdef |=\s?\{|\{[a-z_]+[:.\[}]|\bf["']|\w\((?:\w+=[^,()]{1,40}, ?){2}|Namespace\(|--\w+[ =]"""
    r"""|^\s*#"""
)
_EVALUATION = re.compile(r"(?i)(?<![a-z])(?:val(?:id(?:ation)?)?|eval(?:uation)?|test(?:ing)?|dev)[ _/:\]]")
_PROSE = re.compile(r"(?:\b[a-z]{2,} ){4}[a-z]{2,}\b")
_CERTAIN = ("loss", "step_time", "tps", "samples", "mfu", "grad_norm", "reward")
_RESULTS = (*_CERTAIN, "quality", "perplexity", "q_value", "critic_loss")
"""Those that are not certain prove a step only where the line begins with its number."""
_TRAINS = (*_CERTAIN, "lr", "data_time")
_PAIR = re.compile(rf"(?i)\b[a-z]\w{{0,40}}\s?[:=]\s{{0,4}}{_NUMBER}(?=[,;|\s]|$)")
TIME_WITH_UNIT = re.compile(r"(?i)data(?:[ _]?load\w{0,3})?")
"""`data 14ms`: without a unit it may be an amount of data."""
_RECORD = re.compile(
    rf"\s?[:|]\s(?:[A-Za-z]\w{{0,20}}(?: \w{{1,20}})?\s?[:=]?\s{{1,4}}{_NUMBER}%?(?:[,;|]\s{{0,4}}|\s*$)){{3,40}}$"
)
_MANY = 3
"""So many named figures behind its number make a step of a line with a learning rate, whatever they are."""
_WORD = re.compile(r"[A-Za-z_]{2,}")
_MOST_WORDS_BEFORE = 4
_BRACKETS = re.compile(r"\[[^\[\]]{0,120}\] ")
_JUST_BEHIND = 12
"""So far behind the number of an epoch its `[Val]` stands."""
_DURATION_UNITS = {"ms": "ms", "s": "s", "sec": "s", "min": "m", "m": "m", "h": "h"}
_ROUNDED_OFF = re.compile(r"0?\.0+\d?$")


def read_step(body: str) -> dict[str, Any]:
    """The figures of a step line: `step`, `sample`, `episode` or `epoch`, `total`, and any of `loss`, `lr`,
    `grad_norm`, `perplexity`, `q_value`, `critic_loss`, `step_time`, `epoch_time`, `tps`, `samples`, `mfu` (in %),
    `eta`, `data_time`, `reward`, `memory` (in GiB); times with their unit; `in_epoch` and `epochs` where it contains a
    step and its epoch. {} for any other, but a loss that is NaN or infinite.

    An accuracy, or the like, marks a line with a result; how it is computed is unknown, so it is no figure.
    """
    if len(body) > _LONGEST:
        return {}
    places = _places(body.translate(_ONES))
    figures = _filled(places, body)
    if figures is None:  # a pace of 0 is no figure, which changes what its line is
        figures = _filled(_places.__wrapped__(body), body) or {}
    return figures


_ONES = str.maketrans("0123456789", "1111111111")
_KINDS_COUNTED = ("step", "sample", "episode", "epoch")


class _Place(NamedTuple):
    """Position of a figure in lines of one shape, and how it is read."""

    name: str
    begin: int
    end: int
    unit: str = ""
    """Put behind it."""
    factor: float | None = None
    """Multiplied with it."""
    is_pace: bool = False
    """The figure is one through it."""
    is_clock: bool = False


def _filled(places: tuple[_Place, ...], body: str) -> dict[str, Any] | None:
    """The figures of a line at their places; {} for a number above its total, None for a pace that is none."""
    figures: dict[str, Any] = {}
    for name, begin, end, unit, factor, is_pace, is_clock in places:
        text = body[begin:end]
        if is_clock:
            figures[name] = text.replace("min", "m").replace("sec", "s") if name == "eta" else text
            continue
        text = text.replace(",", "")
        if is_pace:
            if not _is_pace(text):
                return None
            text = f"{1.0 / float(text):.9f}"
        elif factor is not None:
            text = f"{float(text) * factor}"
        elif name == "mfu":
            number = float(text)
            figures[name] = number * 100.0 if not unit and 0.0 <= number <= 1.0 else number
            continue
        figures[name] = text + unit
    counted = next((kind for kind in _KINDS_COUNTED if kind in figures), "")
    return {} if "total" in figures and int(figures[counted]) > int(figures["total"]) else figures


@lru_cache(1024)
def _places(body: str) -> tuple[_Place, ...]:
    """The places of the figures of a step line, () for any other.

    Which digits it holds does not matter, so lines that differ in no more, nearly all of a run, are read once.
    """
    if _CODE.search(body) is not None or _PROSE.search(body) is not None:
        return ()
    figures, marked = _figures(body)
    counted = _counted(body, is_sure="loss" in figures and sum(name in figures for name in _TRAINS) > 1)
    if counted is None and len(figures) > 1 and (loss := figures.get("loss")) and _DIVERGED.match(body, loss.begin):
        return (loss,) if _EVALUATION.search(body) is None else ()
    is_record = _is_record(counted, body)
    if not (is_record or any(name in figures for name in _RESULTS) or ("lr" in figures and _heads(counted, body))):
        return ()
    if counted is None or not (marked or counted.of is not None or len(figures) > 1 or _leads(counted, body)):
        return ()
    if figures.keys() <= {"step_time", "data_time"} and _SHORT_NAME.match(body, counted.begin):
        return ()
    name = counted.kind
    evaluated = _EVALUATION.search(body, 0 if name != "epoch" else counted.end)
    if (
        evaluated is not None
        and "train" not in body.lower()
        and (name != "epoch" or evaluated.start() - counted.end <= _JUST_BEHIND)
    ):
        return ()
    if name == "step" and not any(figure in figures for figure in _CERTAIN) and not _leads(counted, body):
        return ()  # an accuracy in a sentence
    within = next((one for one in _EPOCH.finditer(body) if not _is_apart(one, body)), None)
    within = within or _EP.search(body, 0, counted.begin + 1)
    if name != "epoch" and within is not None:
        figures["in_epoch"] = _Place("in_epoch", *within.span("n"))
        if within["of"] is not None:
            figures["epochs"] = _Place("epochs", *within.span("of"))
    if name == "epoch" and (took := _TOOK.search(body, counted.end)) is not None:
        figures["epoch_time"] = _Place("epoch_time", *took.span("time" if took["time"] is not None else "in"), "s")
    if name != "epoch" and "data_time" in figures and "step_time" not in figures:
        took = _TIME_OF_DATA.search(body)
        if took is not None:
            unit = _DURATION_UNITS[(took["unit"] or "s").lower()]
            figures["step_time"] = _Place("step_time", *took.span("value"), unit)
    for part, size in zip(("memory", "memory_total"), memory_in(body), strict=True):
        if size is not None:
            figures[part] = _Place(part, size.begin, size.end, factor=size.gib)
    figures[name] = _Place(name, *counted.n)
    if counted.of is not None:
        figures["total"] = _Place("total", *counted.of)
    return tuple(figures.values())


class _Counted(NamedTuple):
    kind: str
    """`step`, `sample`, `episode` or `epoch`"""
    n: tuple[int, int]
    """Begin and end of its number."""
    of: tuple[int, int] | None
    """The same of its total."""
    begin: int
    end: int


def _leads(counted: _Counted, body: str) -> bool:
    """True for a line that begins with what it counts, behind no more than a clock, a level and a name, or what a
    logger puts in brackets."""
    return len(_WORD.findall(_BRACKETS.sub("", body[: counted.begin]))) <= _MOST_WORDS_BEFORE


def _lists(counted: _Counted | None, body: str) -> bool:
    """True where figures follow the number of a step, and none stands before it."""
    if counted is None or counted.kind != "step" or not _leads(counted, body):
        return False
    return _PAIR.search(body, 0, counted.begin) is None and len(_PAIR.findall(body, counted.end)) >= _MANY


def _is_record(counted: _Counted | None, body: str) -> bool:
    """True for `Iter 12: SR 55.1%, Q 21.3, Pi -0.6`: a number, a mark behind it, and nothing but named figures."""
    if counted is None or counted.kind == "epoch" or _WORD.search(body, 0, counted.begin) is not None:
        return False
    return _RECORD.match(body, counted.end) is not None


def _heads(counted: _Counted | None, body: str) -> bool:
    """True where a learning rate proves a step: among many figures, or behind a number with its total."""
    return (counted is not None and counted.of is not None and _leads(counted, body)) or _lists(counted, body)


def _counted(body: str, *, is_sure: bool) -> _Counted | None:
    """The counter of a line, None without any; of one that is training for sure also a number with its total alone."""
    steps = list(_steps(body))
    best = next((s for s in steps if "global" in (s["before"] or s["word"]).lower()), None)
    found = best or next((s for s in steps if s["word"].lower() == "step"), None) or (steps[0] if steps else None)
    found = found or _OF_BATCHES.search(body) or _BATCH.search(body) or _FRACTION.search(body)
    found = found or _BATCHES.search(body) or _FIRST_BATCH.search(body) or _BATCH_OF_EPOCH.search(body)
    kind = "step"
    if found is not None and found.re is _STEP and found["word"].lower().startswith("episode"):
        kind = "episode"
    if found is None:
        found, kind = next((one for one in _EPOCH.finditer(body) if not _is_apart(one, body)), None), "epoch"
    if found is None:
        found, kind = _EP.search(body), "epoch" if _OF_EPISODES.search(body) is None else "episode"
    if found is None:
        found, kind = _LEADING.match(body) or (_BARE.search(body) if is_sure else None), "step"
    if found is None:
        return None
    if found.re is _FRACTION and _SHARE.match(body, found.end() - 1) is not None:
        kind = "sample"
    of = None if found["of"] is None else found.span("of")
    return _Counted(kind, found.span("n"), of, found.start(), found.end())


def _steps(body: str) -> Iterator[re.Match[str]]:
    return (s for s in _STEP.finditer(body) if s["before"] or not _is_apart(s, body))


def _is_apart(found: re.Match[str], body: str) -> bool:
    """True for a number that is no count: that of the best epoch, of a limit, of what is resumed."""
    return _NO_STEP.search(body[max(0, found.start() - 16) : found.start()]) is not None


def _figures(body: str) -> tuple[dict[str, _Place], bool]:
    """The figures of a line, the first of each, and whether any has a colon or an equals sign before it, or a unit."""
    figures: dict[str, _Place] = {}
    marked = False
    for found in _FIELD.finditer(body):
        group = next(name for name in _NAMES if found[name] is not None)
        name = "quality" if group == "part" else group
        evaluated = _EVALUATION.search(body[max(0, found.start() - 12) : found.start() + 1])
        bare = not found["mark_before"].strip()
        if name in figures or evaluated is not None:
            continue
        rated = bare and "/" in found[group] and name != "per_s"
        if rated and not found[group].lower().endswith("/batch") and not _is_taken(body, found.start(), figures):
            continue  # `3 tok/s` has its figure before it
        clock, unit = found["clock"], found["unit"]
        factor = None if found["thousands"] is None else _THOUSANDS[found["thousands"].lower()]
        at = found.span("value" if clock is None else "clock")
        if name == "eta":
            ends = (unit or "s").replace("min", "m").replace("sec", "s") if clock is None else ""
            figures[name] = _Place(name, *at, ends, is_clock=clock is not None)
            continue
        if clock is not None and name not in ("step_time", "data_time"):
            continue
        if name in ("step_time", "data_time"):
            without_unit = clock is unit is None and TIME_WITH_UNIT.fullmatch(found[group]) is not None
            if without_unit or (clock is not None and ":" in clock):
                continue
            unit = unit or _unit_before(found, name)
            ends = "" if clock is not None else _DURATION_UNITS.get(unit.lower(), "s")
            figures[name] = _Place(name, *at, ends, factor, is_clock=clock is not None)
        elif name == "per_s":
            is_behind = bare and body[: found.start()].rstrip()[-1:].isdigit()
            if unit is None and _is_pace(found["value"]) and not is_behind:
                figures.setdefault("step_time", _Place("step_time", *at, "s", is_pace=True))
            continue
        elif unit is not None and (name not in ("mfu", "quality", "reward") or unit != "%"):
            continue
        else:
            figures[name] = _Place(name, *at, (unit or "") if name == "mfu" else "", factor)
        marked = marked or not bare
    for found in _RATE.finditer(body):
        at, factor = found.span("value"), _THOUSANDS[(found["thousands"] or "").lower()]
        if any(at[0] < one.end and one.begin < at[1] for one in figures.values()):
            continue  # `grad_norm 1.2 tok/s 1200`
        name = "tps" if found["tps"] is not None else "samples" if found["samples"] is not None else "step_time"
        if name in figures or (found["per_s"] is not None and not _is_pace(found["value"])):
            continue
        unit = "ms" if (found["step_time"] or "").startswith("ms") else "s" if found["step_time"] is not None else ""
        is_pace = found["per_s"] is not None
        figures[name] = _Place(name, *at, unit, None if is_pace else factor, is_pace)
        marked = True
    if (of_kind := figures.pop("loss_of_kind", None)) is not None:
        figures.setdefault("loss", of_kind._replace(name="loss"))
    return figures, marked


def _unit_before(found: re.Match[str], name: str) -> str:
    """The unit of a duration that none follows: that of `ms/batch`, `step_time_ms`, `step time (ms)`, else seconds."""
    within = found["in_unit"] or (found["mark"] or "").strip(" ()")
    return "ms" if found[name].lower().startswith("ms/") else within if within.lower() in _DURATION_UNITS else "s"


def _is_taken(body: str, end: int, figures: dict[str, _Place]) -> bool:
    """True where the number that ends before `end`, behind its unit and spaces alone, is the figure of another name."""
    before = body[:end].rstrip()
    return any(_UNIT.fullmatch(before, one.end) is not None for one in figures.values() if one.end <= len(before))


def _is_pace(value: str) -> bool:
    """True for a rate that is one: `0.03` is rounded by up to a sixth, so the clock of the lines knows better."""
    return float(value.replace(",", "")) > 0.0 and _ROUNDED_OFF.match(value) is None


def figure_of(name: str) -> str | None:
    """The kind of figure that a name stands for (`loss`, `lr`, `step_time`, ...), None for any other name."""
    kinds = (
        kind for kind, names in _NAMES.items() if kind != "part" and re.fullmatch(f"(?i:(?:{names})=)", f"{name}=")
    )
    found = next(kinds, None)
    return "loss" if found == "loss_of_kind" else found
