"""The lazy names of packages: a package costs nothing at start, whatever its modules import."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping


def lazy_face(package: str, modules: Mapping[str, str]) -> Callable[[str], object]:
    """Return the `__getattr__` of a package, and set its `__all__`: `modules` has the names of each of its modules.

    A module is imported when the first of its names is used.
    """
    homes = {name: module for module, names in modules.items() for name in names.split(",")}
    vars(sys.modules[package])["__all__"] = sorted(homes)

    def load(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return load
