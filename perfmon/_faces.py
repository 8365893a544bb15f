"""The lazy names of packages: a package costs nothing at start, whatever its modules import."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping


def lazy_face(package: str, modules: Mapping[str, str]) -> Callable[[str], object]:
    """Return the `__getattr__` of a package: `modules` has the names that each of its modules offers.

    A module is imported when the first of its names is used. Type checkers read the imports under `TYPE_CHECKING`, of
    the same names: a test compares the two. `__all__` is set here.
    """
    homes = {name: module for module, names in modules.items() for name in names.split(",")}
    sys.modules[package].__all__ = sorted(homes)  # type: ignore[attr-defined]

    def load(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return load
