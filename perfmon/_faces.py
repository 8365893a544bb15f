"""The lazy names of packages: a package costs nothing at start, whatever its modules import."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import cache


def lazy_face(package: str) -> Callable[[str], object]:
    """Return the `__getattr__` of a package; the imports under `TYPE_CHECKING` in its source list its names.

    So names are listed once, for type checkers and at run time. A module is imported when the first of its names is
    used.
    """

    @cache
    def homes() -> dict[str, str]:
        """Return the module of every name."""
        found: dict[str, str] = {}
        module = ""
        with open(sys.modules[package].__file__ or "", encoding="utf-8") as source:
            lines = source.read().partition("if TYPE_CHECKING:\n")[2].partition("\n__getattr__")[0].splitlines()
        for line in lines:
            names = line.partition("#")[0].strip()
            if names.startswith("from "):
                module, _, names = names.removeprefix("from ").partition(" import ")
            found.update((name.split()[0], module) for name in names.strip("()").split(",") if name.strip())
        return found

    def load(name: str) -> object:
        if name == "__all__":
            value: object = sorted(homes())
        elif name.startswith("__") or name not in homes():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        else:
            value = getattr(importlib.import_module(homes()[name], package), name)
        setattr(sys.modules[package], name, value)
        return value

    return load
