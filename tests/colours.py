"""Colours as eyes see them: contrast by WCAG 2, distance in CIELAB, what colour-blind eyes see by Machado 2009."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Triple = tuple[float, float, float]
MACHADO: Mapping[str, Sequence[Triple]] = {
    "everybody": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
}
"""Simulation matrices for linear RGB at full severity."""
_XYZ = ((0.4124564, 0.3575761, 0.1804375), (0.2126729, 0.7151522, 0.0721750), (0.0193339, 0.1191920, 0.9503041))
_WHITE = (0.95047, 1.0, 1.08883)


def linear(colour: str) -> Triple:
    """Linear RGB, 0 to 1, of `#rrggbb`."""
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return _linear(red), _linear(green), _linear(blue)


def _linear(value: float) -> float:
    return float(value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4)


def _times(matrix: Sequence[Triple], vector: Triple) -> Triple:
    first, second, third = (sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix)
    return first, second, third


def contrast(one: str, other: str) -> float:
    """Contrast ratio, 1 to 21."""
    low, high = sorted(
        sum(w * v for w, v in zip((0.2126, 0.7152, 0.0722), linear(c), strict=True)) for c in (one, other)
    )
    return (high + 0.05) / (low + 0.05)


def lab(colour: str, eyes: str = "everybody") -> Triple:
    """CIELAB of a colour as those eyes see it."""
    red, green, blue = (min(1.0, max(0.0, value)) for value in _times(MACHADO[eyes], linear(colour)))
    x, y, z = (_cube(v / w) for v, w in zip(_times(_XYZ, (red, green, blue)), _WHITE, strict=True))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def _cube(value: float) -> float:
    return float(value ** (1 / 3) if value > 0.008856 else 7.787 * value + 16 / 116)


def distance(one: str, other: str, eyes: str = "everybody") -> float:
    """CIE 1976 distance; about 2 can just be told apart side by side."""
    squares = ((a - b) ** 2 for a, b in zip(lab(one, eyes), lab(other, eyes), strict=True))
    return float(sum(squares) ** 0.5)
