"""The lazy names of packages: a package costs nothing at start, whatever its modules import."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from functools import cache

_IMPORT = re.compile(r"^    from (\S+) import (?:\(([^)]*)\)|(.*))$", re.MULTILINE)


def lazy_face(package: str) -> Callable[[str], object]:
    """Return the `__getattr__` of a package; the imports under `TYPE_CHECKING` in its source list its names.

    So names are listed once, for type checkers and at run time. A module is imported when the first of its names is
    used.
    """

    @cache
    def homes() -> dict[str, str]:
        """Return the module of every name."""
        source = sys.modules[package].__loader__.get_source(package) or ""  # type: ignore[union-attr]
        block = source.partition("if TYPE_CHECKING:\n")[2]
        return {
            name.split()[0]: module
            for module, several, one in _IMPORT.findall(block)
            for name in (several or one).split(",")
            if name.strip()
        }

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
