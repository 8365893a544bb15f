"""The house keeps its shape: packages are declared, layers are linked, imports say which layer they cross."""

from __future__ import annotations

import ast
import importlib
import os
import tomllib
from collections.abc import Iterator
from pathlib import Path

from failures import failures_of

ROOT = Path(__file__).parents[2]
LAYERS = ("rules", "sources", "themes", "tui")
"""Folders at the top that are packages inside `perfmon`."""
SETUPTOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]


def _packages() -> Iterator[tuple[str, Path]]:
    """Every package with its folder; links are not followed, so each is met once."""
    for top in ("perfmon", *LAYERS):
        for folder, _, files in os.walk(ROOT / top):
            if "__init__.py" in files:
                parts = Path(folder).relative_to(ROOT).parts
                yield ".".join(parts if top == "perfmon" else ("perfmon", *parts)), Path(folder)


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    """(dots, module) of every import of a file, wherever it stands."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield node.level, node.module or ""
        elif isinstance(node, ast.Import):
            yield from ((0, alias.name) for alias in node.names)


def _room(module: str) -> str:
    """The layer or room of a module: `perfmon.rules.signatures` is in `rules`, `perfmon.core.model` on the ground
    floor.
    """
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and (ROOT / "perfmon" / parts[1]).is_dir() else ""


MODULES = [
    (f"{package}.{path.stem}", package, path) for package, folder in _packages() for path in sorted(folder.glob("*.py"))
]


def test_every_package_is_declared() -> None:
    assert sorted(SETUPTOOLS["packages"]) == sorted(name for name, _ in _packages())


def test_every_folder_with_code_is_a_package() -> None:
    declared = {folder for _, folder in _packages()}
    assert {path.parent for top in ("perfmon", *LAYERS) for path in (ROOT / top).glob("**/*.py")} <= declared


def test_every_layer_is_mapped_and_linked() -> None:
    assert SETUPTOOLS["package-dir"] == {"perfmon": "perfmon", **{f"perfmon.{layer}": layer for layer in LAYERS}}
    links = {layer: (ROOT / "perfmon" / layer).readlink() for layer in LAYERS}
    assert links == {layer: Path("..", layer) for layer in LAYERS}


def _crosses_layers_by_name(package: str, path: Path) -> None:
    for level, module in _imports(path):
        message = "." * level + module
        if level:
            home = package.split(".")[: len(package.split(".")) - level + 1]
            assert _room(".".join((*home, module))) == _room(package), f"{message} leaves its layer: write perfmon.…"
        elif module.split(".")[0] == "perfmon" and module != "perfmon":
            assert _room(module) != _room(package), f"{message} stays in its layer: write it relative"
            faces = {name for name, _ in _packages()}
            assert module in faces or not _room(module), f"{message} is behind the face of its package"
        else:
            assert module.split(".")[0] not in LAYERS, f"{message}: the package is perfmon.{module}"


def test_imports_are_relative_inside_a_layer_and_absolute_across() -> None:
    assert failures_of(_crosses_layers_by_name, MODULES) == []


def _has_docstring(package: str, path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())), f"{package}: {path.name} has no docstring"


def test_every_module_says_what_it_is_for() -> None:
    assert failures_of(_has_docstring, MODULES) == []


def _offers_what_it_declares(package: str, path: Path) -> None:
    declared = {
        alias.asname or alias.name
        for block in ast.parse(path.read_text()).body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert set(importlib.import_module(package).__all__) == declared, package


def test_faces_offer_what_they_declare_to_type_checkers() -> None:
    faces = [(name, name, folder / "__init__.py") for name, folder in _packages()]
    lazy = [face for face in faces if "= lazy_face(" in face[2].read_text()]
    assert failures_of(_offers_what_it_declares, lazy) == []
