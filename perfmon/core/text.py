"""Text for people: what logs print, which is hostile, sanitised; values with their units; counts in words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from os.path import commonprefix

ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\|$)"  # OSC and other strings
    r"|\x1b[ -/]*[0-~]"  # two-byte escapes
    r"|\x1b"
)
CONTROLS = re.compile(
    r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff\U000e0000-\U000e007f"
    # no cells of their own, but terminals disagree: what follows them would stand elsewhere
    r"\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\ufff9-\ufffb\U000e0100-\U000e01ef]"
)


def plain(text: str, limit: int = 500) -> str:
    """`text` without escape sequences, control or direction characters, tabs as spaces, at most `limit` characters."""
    if "\x1b" in text:
        text = ESCAPES.sub("", text)
    text = CONTROLS.sub("", text.replace("\t", "    "))
    return text if len(text) <= limit else text[: limit - 1] + "…"


def common_folder(names: Sequence[str]) -> str:
    """Common folder of all paths, with a closing slash; "" for a single relative path or for none."""
    folders = [name[: name.rfind("/") + 1] for name in names]
    if len(folders) < 2 and not any(name.startswith("/") for name in names):
        return ""
    shared = commonprefix(folders)  # noqa: RUF071 (cut back to a slash below; names may mix "/" and none)
    return shared[: shared.rfind("/") + 1]


# --- Units: durations as systems print them, and the canonical unit that a metric's name implies ---

_SUFFIXES = (
    ("_mb_s", "MB/s"),
    ("_per_s", "/s"),
    ("_per_min", "/min"),
    ("_ms", "ms"),
    ("_s", "s"),
    ("_pct", "%"),
    ("_share", "%"),
    ("_usage", "%"),
    ("_fill", "%"),
    ("_busy", "%"),
    ("_tps", "tokens/s"),
    ("_gib", "GiB"),
    ("_bytes", "B"),
    ("_w", "W"),
    ("_mhz", "MHz"),
    ("_temp_c", "°C"),
)
"""The first that fits."""

STEPS = "steps"
TO_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s|m|h|d)(?![a-z])")
_LONGEST_DURATION = 64
_CLOCK = re.compile(r"(?:(\d+)(?: days?, |-))?(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)$")


def metric_unit(metric: str) -> str:
    """The unit of a metric, by the suffix of its name (before any `.op` or `{group}`); "" when it has none.

    >>> metric_unit("rpc_ms.reload_weights"), metric_unit("staleness")
    ('ms', 'steps')
    """
    base = metric.split("{", 1)[0].split(".", 1)[0]
    if base in ("staleness", "off_policy"):
        return STEPS
    for suffix, unit in _SUFFIXES:
        if base.endswith(suffix):
            return unit
    return ""


def parse_duration(text: str) -> float:
    """Seconds of `850ms`, `42.3s`, `1m 13s`, `2h 5m`, `1d 3h`, `0:01:02`, `1:02.5` or a bare number of seconds.

    Raises ValueError when the text is none of these.
    """
    text = text.strip()
    if len(text) > _LONGEST_DURATION:
        raise ValueError("too long for a duration")
    parts = _DURATION.findall(text)
    if parts and not _DURATION.sub("", text).strip():
        return sum(float(number) * TO_SECONDS[unit] for number, unit in parts)
    clock = _CLOCK.match(text)
    if clock:
        days, hours, minutes, seconds = clock.groups()
        return int(days or 0) * 86400 + int(hours or 0) * 3600 + int(minutes) * 60 + float(seconds)
    return float(text)


_THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d*)?\Z")


def parse_number(text: str) -> float:
    """A float out of `1,234.5`, `12%`, `np.float64(0.3)`, `'0.41'`; ValueError for anything else, a `1,5` included."""
    text = text.strip().strip("'\"")
    if text.startswith("np.") and text.endswith(")"):
        text = text[text.index("(") + 1 : -1]
    text = text.rstrip("%")
    return float(text.replace(",", "") if _THOUSANDS.match(text) else text)


def convert(value: float, unit: str, to: str) -> float:
    """`value` of `unit` in the unit `to`; values of unknown pairs are returned unchanged."""
    if unit == to or not unit or not to:
        return value
    if unit == "ratio" and to == "%":
        return value * 100.0
    if unit in TO_SECONDS and to in TO_SECONDS:
        return value * TO_SECONDS[unit] / TO_SECONDS[to]
    return value


def format_seconds(seconds: float) -> str:
    """`0.4 s`, `12.4 s`, `3m 20s`, `2h 05m`, `1d 3h` for people.

    >>> format_seconds(12.44), format_seconds(200), format_seconds(7500)
    ('12.4 s', '3m 20s', '2h 05m')
    """
    if seconds < 0:
        return "-" + format_seconds(-seconds)
    if seconds < 0.0995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h {whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d {whole % 86400 // 3600}h"


def short_duration(seconds: float) -> str:
    """A duration without the zeros of a round length: `60 s`, `10m`, `3m 16s`, `1h`."""
    text = format_seconds(seconds)
    return text.replace(".0 s", " s").replace("m 00s", "m").replace("h 00m", "h")


def format_ms(ms: float) -> str:
    """Milliseconds for people: `87 ms`, `12.4 s`."""
    return f"{ms:.0f} ms" if abs(ms) < 1000 else format_seconds(ms / 1000)


def format_value(value: float, unit: str) -> str:
    """A metric's value with its unit, for people."""
    if unit == "ms":
        return format_ms(value)
    if unit == "s":
        return format_seconds(value)
    if unit == "%":
        return f"{value:.1f} %"
    text = f"{value:.0f}" if value == int(value) and abs(value) < 1e12 else f"{value:.4g}"
    return f"{text} {unit.removesuffix('s') if text == '1' and unit == STEPS else unit}".strip()


def format_fine(value: float, unit: str) -> str:
    """The same, with three digits of a few milliseconds: two values are compared, or one is of a step of a GPU.

    >>> format_fine(4.382, "ms"), format_fine(0.0231, "ms"), format_fine(204.4, "ms")
    ('4.38 ms', '0.023 ms', '204 ms')
    """
    if unit != "ms" or abs(value) >= 9.995:
        return format_value(value, unit)
    return f"{float(f'{value:.3g}'):.3g} ms" if abs(value) >= 0.1 else f"{round(value, 3):g} ms"


def read_value(text: str, unit: str) -> float:
    """Parse the output of `format_value`, to its digits; ValueError for anything else.

    >>> read_value("12.4 s", "ms"), read_value("96.8 %", "%")
    (12400.0, 96.8)
    """
    if unit not in ("ms", "s"):
        return parse_number(text.removesuffix(unit).removesuffix(STEPS[:-1]).strip())
    seconds = parse_duration(text.removeprefix("-")) * (-1.0 if text.startswith("-") else 1.0)
    return seconds * 1000.0 if unit == "ms" else seconds


def format_bytes(count: float) -> str:
    """`812 B`, `1.4 KiB`, `1.0 GiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


# --- Figures in words: counts with their noun, shares ---


def counted(count: int, noun: str, plural: str = "") -> str:
    """`1 step`, `3 steps`."""
    return f"{count} {plural_of(count, noun, plural)}"


def plural_of(count: float, noun: str, plural: str = "") -> str:
    """The noun for so many: `batch`, or `plural`, else with an s."""
    return noun if count == 1 else plural or f"{noun}s"


def format_share(share: float) -> str:
    """A fraction as `31 %`; one below ten keeps a decimal."""
    value = 100.0 * share
    return f"{value:.0f} %" if value >= 9.95 or value == 0 else f"{value:.1f} %"
