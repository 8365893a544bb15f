"""Documentation, help, messages and signatures use the words of docs/vocabulary.md, not the ones that it replaces."""

from __future__ import annotations

import argparse
import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perfmon.commands import COMMANDS, build_parser

ROOT = Path(__file__).parents[2]
PACKAGES = ("perfmon", "rules", "sources", "themes", "tui")
NO_QUESTIONS_IN = PACKAGES
"""Packages whose docstrings are imperative or noun phrases."""
DOCSTRINGS_OF = ("themes",)
"""Folders whose docstrings use none of the words either."""
MOST_QUESTIONS = 0.01
"""Largest share of docstrings there that may start with a question word."""

_CODE = re.compile(r"```.*?```|`[^`\n]*`|<!-- output.*?/output -->|\]\([^)]*\)", re.DOTALL)
_FENCES = re.compile(r"(`{3,}).*?\n\1(?!`)", re.DOTALL)
_QUESTION = re.compile(r"(?:What|Whether|Where|Who|Whose|How|Which|When|Why)\b")
_SHELL = re.compile(r"/dev/|\$\(|\$\w|&&|\|\||; do |printf |\\[bdsw]|\(\?[P:i!=<]|\bexec ")
_TEXT_KEYS = frozenset({"title", "meaning", "sentence", "advice", "confused_with", "say"})

ALLOWED = (
    "cannot tell",  # a verdict of `perfmon compare`, part of its document
    "cannot-tell",
    "telling time",
)
"""Phrases that contain such a word and stay."""
EXCEPTIONS = frozenset(
    {
        ("rules/lint.py", "missing, expected leg, spans, share, rest, fraction, queue or short"),
        ("rules/conditions/base.py", "missing, expected one of band, above, below"),
    }
)
"""(file, text) with keys of data files."""


def replaced() -> re.Pattern[str]:
    """The words of the left column of the second table."""
    table = (ROOT / "docs" / "vocabulary.md").read_text().split("## Replaced words")[1]
    words = [word for row in re.findall(r"^\| (`.*?`) \|", table, re.MULTILINE) for word in re.findall(r"`(.+?)`", row)]
    assert len(words) > 50
    lower = "|".join(word for word in words if word.islower())
    upper = "|".join(word for word in words if not word.islower())
    return re.compile(rf"(?<![\w./\[-])(?:(?i:{lower})|{upper})(?![\w/=-]|\.\w)")


REPLACED = replaced()
INSTEAD = "words that docs/vocabulary.md replaces, with the words around them: it lists what to use instead"


def found(text: str) -> list[str]:
    """Replaced words in a text, with what is around them."""
    for phrase in ALLOWED:
        text = text.replace(phrase, "")
    text = " ".join(text.split())
    return [text[max(0, m.start() - 40) : m.end() + 40] for m in REPLACED.finditer(text)]


def prose(page: Path) -> str:
    """A page without its code, output and links."""
    text = page.read_text()
    if page.name == "vocabulary.md":
        text = text.split("## Replaced words")[0]
    if page.name == "accuracy.md":
        text = re.sub(r"### Known errors.*?\n## ", "", text, flags=re.DOTALL)  # titles of cases
    return _CODE.sub("", _FENCES.sub("", text))


@pytest.mark.parametrize(
    "page",
    [*(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG")), *sorted((ROOT / "docs").glob("*.md"))],
    ids=lambda p: p.name,
)
def test_pages(page: Path) -> None:
    assert found(prose(page)) == [], INSTEAD


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """A parser and those of its subcommands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                yield from parsers(child)


def test_help() -> None:
    texts = {parser.prog: parser.format_help() for parser in parsers(build_parser(tuple(COMMANDS)))}
    assert {prog: words for prog, text in texts.items() if (words := found(_CODE.sub("", text)))} == {}, INSTEAD


def modules(*folders: str) -> list[Path]:
    """The modules of some folders."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def docstrings(tree: ast.AST) -> list[ast.Constant]:
    """Docstrings, and the strings under fields and constants that serve as such."""
    statements = (node.value for node in ast.walk(tree) if isinstance(node, ast.Expr))
    return [value for value in statements if isinstance(value, ast.Constant) and isinstance(value.value, str)]


def messages(tree: ast.AST) -> Iterator[str]:
    """String literals that are sentences or parts of some: three words or more, neither a pattern nor a script."""
    skipped = {id(value) for value in docstrings(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(value) for value in node.values}
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("re.compile", "re.match", "re.search"):
            skipped |= {id(part) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(v.value) if isinstance(v, ast.Constant) else "{}" for v in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        if len(re.findall(r"[A-Za-z]{2,}", text)) >= 3 and " " in text.strip() and not _SHELL.search(text):
            yield text


@pytest.mark.parametrize("folder", PACKAGES)
def test_messages(folder: str) -> None:
    wrong = []
    for path in modules(folder):
        if path.is_relative_to(ROOT / "perfmon" / "demo"):  # it writes logs of other programs
            continue
        name = str(path.relative_to(ROOT))
        texts = messages(ast.parse(path.read_text()))
        wrong += [
            (name, word) for text in texts if (name, text) not in EXCEPTIONS for word in found(_CODE.sub("", text))
        ]
    assert wrong == [], INSTEAD


def texts_of(table: dict[str, Any]) -> Iterator[str]:
    """What users read of a signature."""
    for key, value in table.items():
        if key in _TEXT_KEYS:
            yield from ([value] if isinstance(value, str) else value)
        elif key == "advice_by_cause":
            yield from (line for lines in value.values() for line in lines)
        elif key == "example":
            yield from (example["name"] for example in value)
        elif isinstance(value, list):
            yield from (text for part in value if isinstance(part, dict) for text in texts_of(part))


@pytest.mark.parametrize("path", sorted((ROOT / "rules" / "signatures").glob("*.toml")), ids=lambda path: path.stem)
def test_signatures(path: Path) -> None:
    table = tomllib.loads(path.read_text())
    assert [word for text in texts_of(table) for word in found(re.sub(r"\{[^}]*\}", "", text))] == [], INSTEAD


@pytest.mark.parametrize(
    "path",
    [*sorted((ROOT / "sources" / "formats").glob("*.toml")), *sorted((ROOT / "themes").glob("*.toml"))],
    ids=lambda path: path.stem,
)
def test_titles(path: Path) -> None:
    assert found(tomllib.loads(path.read_text())["title"]) == [], INSTEAD


def docstrings_of(folder: str) -> list[str]:
    """All docstrings of a folder."""
    return [str(value.value) for path in modules(folder) for value in docstrings(ast.parse(path.read_text()))]


@pytest.mark.parametrize("folder", ["rules", "sources", "themes", "pyproject.toml"])
def test_comments_of_data_files(folder: str) -> None:
    place = ROOT / folder
    wrong = {
        (path.name, number): words
        for path in (sorted(place.rglob("*.toml")) if place.is_dir() else [place])
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if line.lstrip().startswith("# ") and (words := found(_CODE.sub("", line)))
    }
    assert wrong == {}, INSTEAD


@pytest.mark.parametrize("folder", NO_QUESTIONS_IN)
def test_docstrings_are_no_questions(folder: str) -> None:
    texts = docstrings_of(folder)
    questions = [text for text in texts if _QUESTION.match(text)]
    assert len(questions) <= MOST_QUESTIONS * len(texts), f"begin these with an imperative or a noun: {questions}"


@pytest.mark.parametrize("folder", DOCSTRINGS_OF)
def test_docstrings(folder: str) -> None:
    assert [word for text in docstrings_of(folder) for word in found(_CODE.sub("", text))] == [], INSTEAD
