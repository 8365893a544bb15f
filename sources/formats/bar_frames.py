"""Reads frames of tqdm's progress bars, whatever program draws them.

`name:  34%|███▍      | 420/1234 [06:12<11:58,  1.13it/s, loss=0.4]`, or `420it [06:12,  1.13it/s]` without a total.
Only its name shows what a bar counts. The rate that it prints is a moving mean, and the mean since its begin on the
last frame: nothing is read of it. How quickly it counts is worked out from frames, see `perfmon.store.counters`. What
stands behind the rate is read where the bar is one of training: figures of an evaluation are others.
"""

from __future__ import annotations

import re
from functools import lru_cache
from math import isfinite
from typing import Any, NamedTuple

from .step_lines import figure_of

_AMOUNT = r"\d[\d.,]{0,15}[kMGTPEZY]?"
_BAR_CLOCK = r"\d+:\d\d(?::\d\d)?"
_COUNT = re.compile(rf"(?P<n>{_AMOUNT})(?:/(?P<of>{_AMOUNT}|\?))?(?P<unit> ?[A-Za-z][\w./-]{{0,15}})? ?$")
_TIMES = re.compile(rf"(?P<elapsed>{_BAR_CLOCK})(?:<(?P<remaining>-?{_BAR_CLOCK}|\?))?(?=[,\]]|$)")
_PERCENT = re.compile(r"(?<![\d.])\d{1,3}%(?:\|[^|]{0,400}\|| Completed \|)? *$")
_PLACE = re.compile(
    r"\[[A-Za-z_]*?(?:rank)?[ =]?(\d+)\]|\brank[= ](\d+)|\bpid=(\d+(?:, ip=[\w.:-]{1,45})?)|^\s*\(\w{0,40}?_(\d+)\) "
)
_LAUNCHED = re.compile(r"^\s*(?:\[[A-Za-z_]*[ =]?\d+\]:?\s*|\([^()]*\bpid=[^()]*\)\s*|\d{1,4}:\s)+")
_FIGURE = re.compile(
    r"(?:[,;|]|/s(?:tep)?|s/it) {0,2}(?P<name>[A-Za-z][\w /.-]{0,40}?) ?[=:] ?[\[(]?"
    r"(?P<value>[-+]?\d{1,12}(?:\.\d{0,20})?(?:[eE][-+]?\d{1,3})?|(?i:[-+]?nan|[-+]?inf(?:inity)?))(?=[\s,;|\])]|$)"
)
_READ = ("loss", "lr", "grad_norm", "reward", "tps")
_PART = re.compile(r"_(?:step|epoch|avg|mean)$")
_POSTFIX = 400
_LABEL = re.compile(r"[A-Za-z_][A-Za-z_/-]*(?: [A-Za-z_/-]+){0,5}")
_BAR_EPOCH = re.compile(r"(?i)(?<![a-z])epochs?\b\W{0,3}(\d{1,6})(?![\d.])(?: ?(?:/|of) ?(\d{1,6})(?![\d.]))?")
_NUMBERED = re.compile(r" \d{1,6}$")
_LONGEST_BAR = 60

_KINDS = tuple(
    (kind, re.compile(regex))
    for kind, regex in (
        ("graphs", r"\bCapturing\b"),
        ("shards", r"(?i)\b(?:down)?loading\b|\bfetching\b|\bcheckpoint shards\b|\bshards:?$"),
        ("bytes", r"\.(?:safetensors|bin|json|gguf|parquet|model|txt|zip|tar|gz|pth?)\b"),
        ("requests", r"\bProcessed prompts\b|\bAdding requests\b"),
        ("rollouts", r"(?i)\brollouts?\b|\bgenerating (?:trajector|sample|completion|response)"),
        (
            "samples",
            r"\b(?:Map|Filter|Flattening|Saving the dataset|from Arrow format|Generating \w+ split)\b"
            r"|\b(?:Token|Convert|Process|Pack|Truncat|Apply|Extract|Add)\w*ing\b|\bdataset\b"
            r"|(?i:\b(?:scanning|caching (?:images|labels|features)|preprocessing|indexing|building index)\b)",
        ),
        (
            "batches",
            r"(?i)(?<![a-z])(?:eval\w*|valid\w*|val|test(?:ing)?|predict\w*|sanity|inference)(?![a-z])",
        ),
        ("epochs", r"(?i)(?<![a-z])epochs?(?: *:)? *$"),
        ("step", r"(?i)train|epoch|steps?\b|\biter|loss|optimi[sz]ation|\bupdates?\b"),
    )
)
"""Kinds of progress by words in the name, the first that fits."""


class _Named(NamedTuple):
    kind: str
    label: str
    """Its words, and the number of the epoch: other numbers in it may change from frame to frame."""
    place: str
    """Rank or process that draws it, where a launcher names it."""
    epoch: str | None = None
    epochs: str | None = None
    """The number of the epoch that it belongs to, and how many there are."""


def read_bar(body: str) -> dict[str, Any]:
    """`n`, `of`, `elapsed`, `remaining`, `label`, `place`, `kind` of a frame that ends with `body`; {} for else."""
    at = body.rfind("[", 0, body.rfind("<") if "<" in body else None)
    while at > 0:
        times = _TIMES.match(body, at + 1)
        count = None if times is None else _COUNT.search(body, max(0, at - 50), at)
        if times is not None and count is not None:
            break
        at = body.rfind("[", 0, at)
    else:
        return {}
    head = body[: count.start()]
    percent = _PERCENT.search(head)
    if percent is None:
        if count["of"] is not None or times["remaining"] is not None or count["unit"] is None:
            return {}
        name = head
    else:
        name = head[: percent.start()]
    kind, label, place, epoch, epochs = _named(name)
    unit = body[times.end() : times.end() + 40]
    if kind in ("items", "step") and ("s/epoch" in unit or "epoch/s" in unit):
        kind = "epochs"
    elif kind == "items" and not label and ("B/s" in unit):
        kind = "bytes"
    figures = _bar_figures(body[times.end() : times.end() + _POSTFIX]) if kind in ("items", "step") else {}
    if kind == "items" and "loss" in figures:
        kind = "step"
    return (figures if kind == "step" else {}) | {
        "n": count["n"].replace(",", ""),
        "of": None if count["of"] is None else count["of"].replace(",", ""),
        "elapsed": times["elapsed"],
        "remaining": times["remaining"],
        "kind": kind,
        "label": label,
        "place": place,
        "series": _NUMBERED.sub("", label),
        "epoch": epoch if kind == "step" else None,
        "epochs": epochs,
    }


def _bar_figures(postfix: str) -> dict[str, Any]:
    """The figures behind the rate of a bar, the first of each kind."""
    figures: dict[str, Any] = {}
    if "=" in postfix or ":" in postfix:
        for found in _FIGURE.finditer(postfix):
            name = _figure(found["name"])
            if name == "loss" and "train" in found["name"] and isfinite(float(found["value"])):
                # Lightning prints its own mean of what a model returns, nan where that is nothing.
                figures[name] = figures[name] if isfinite(float(figures.get(name, "nan"))) else found["value"]
            elif name is not None:
                figures.setdefault(name, found["value"])
    return figures


@lru_cache(512)
def _figure(name: str) -> str | None:
    found = figure_of(_PART.sub("", name))
    return found if found in _READ else None


@lru_cache(512)
def _named(name: str) -> _Named:
    """Kind, label and place of a bar from the text before the percentage."""
    text = _LAUNCHED.sub("", name).rstrip(" :")
    kind = next((kind for kind, words in _KINDS if words.search(text) is not None), "items")
    labels = _LABEL.findall(text[-2 * _LONGEST_BAR :])
    label = (
        max(labels, key=len, default="") if kind == "items" else next((one for one in labels if _names(kind, one)), "")
    )
    epoch = _BAR_EPOCH.search(text) if kind != "epochs" else None
    if epoch is not None:
        label = f"{label[-_LONGEST_BAR + 10 :]} {epoch[1]}".strip()
    found = _PLACE.search(name)
    place = next(filter(None, found.groups()), "") if found is not None else ""
    return _Named(kind, label[-_LONGEST_BAR:], place, *(epoch.groups() if epoch is not None else ()))


def _names(kind: str, label: str) -> bool:
    return any(one == kind and words.search(label) is not None for one, words in _KINDS)
