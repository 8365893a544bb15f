"""`perfmon rules`: the signatures that findings come from, browsed, explained, checked and tested."""

from __future__ import annotations

import argparse
import difflib
import json
import re
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import perfmon.rules
from perfmon.core import ExitCode, PerfmonError, UsageError, load_config

from ._options import (
    Offered,
    add_config_argument,
    add_formats_argument,
    check_files_exist,
    completes_files,
    existing_folders,
)

if TYPE_CHECKING:
    from perfmon.rules import Signature


DESCRIPTION = "A signature is a TOML file that defines a bottleneck: conditions, advice and examples."
EXAMPLE = "perfmon rules explain frontend-queue"
_ID = re.compile(r'(?m)^id\s*=\s*["\']([a-z0-9][\w.-]*)["\']')
"""Other ids would mean something to a shell."""
_BUILTIN = Path(perfmon.rules.__path__[0])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)

    def add(name: str, example: str, about: str) -> argparse.ArgumentParser:
        return actions.add_parser(name, help=about, epilog=f"example: perfmon rules {example}")

    listing = add("list", "list", "list all signatures, most urgent first")
    listing.add_argument("--json", action="store_true", help="print the list as JSON")
    explaining = add("explain", "explain frontend-queue", "explain a signature: meaning, conditions, fix")
    choices, about = Offered(_signature_ids), "signature id, as in `perfmon rules list`"
    explaining.add_argument("id", metavar="ID", choices=choices, help=about)
    checking = add("check", "check mine.toml", "validate signature and threshold files")
    about = "files to check (default: built-in and user files)"
    completes_files(checking.add_argument("files", metavar="FILE", type=Path, nargs="*", help=about))
    add_formats_argument(checking)
    testing = add("test", "test stall", "run the examples in signatures")
    testing.add_argument("id", metavar="ID", nargs="?", choices=choices, help="signature id (default: all)")
    testing.add_argument("--json", action="store_true", help="print the results as JSON")
    for action in (listing, explaining, checking, testing):
        add_config_argument(action)


def _signature_ids() -> set[str]:
    """The ids that shells complete, also those of files that are not valid yet."""
    folders = [_BUILTIN / "signatures"]
    with suppress(PerfmonError):  # a broken configuration is reported by the commands
        folders += load_config(None).signature_dirs
    ids: set[str] = set()
    for file in (file for folder in folders for file in folder.glob("*.toml")):
        with suppress(OSError):
            ids.update(_ID.findall(file.read_text("utf-8", "replace"))[:1])
    return ids


def run(args: argparse.Namespace) -> int:
    action = {"list": _list, "explain": _explain, "check": _check, "test": _test}[args.action]
    return action(args)


def _load(args: argparse.Namespace) -> dict[str, Signature]:
    from perfmon.rules import load_signatures

    signatures = load_signatures(load_config(args.config).signature_dirs)
    return {signature.id: signature for signature in signatures}


def _known(name: str, ids: Collection[str]) -> str:
    """Return `name` if it is one of `ids`. Raises UsageError with the nearest one."""
    if name in ids:
        return name
    near = difflib.get_close_matches(name, ids, 1)
    fix = f"did you mean {near[0]}?" if near else "see perfmon rules list"
    raise UsageError(f"{name}: no such signature ({fix})")


def _list(args: argparse.Namespace) -> int:
    signatures = _load(args).values()
    if args.json:
        rows = [{"id": s.id, "title": s.title, "severity": s.severity, "kind": s.kind} for s in signatures]
        print(json.dumps(rows, indent=2))
        return ExitCode.DONE
    width = max((len(s.id) for s in signatures), default=0)
    for s in signatures:
        print(f"{s.id:{width}}  {s.severity:8}  {s.kind:10}  {s.title}")
    return ExitCode.DONE


def _explain(args: argparse.Namespace) -> int:
    signatures = _load(args)
    signature = signatures[_known(args.id, signatures)]
    from perfmon.rules import explain

    print(explain(signature).rstrip("\n"))
    return ExitCode.DONE


def _check(args: argparse.Namespace) -> int:
    from perfmon.pipeline import vocabulary
    from perfmon.rules import check_files

    config = load_config(args.config)
    check_files_exist(args.files)
    users = [file for folder in config.signature_dirs for file in sorted(folder.glob("*.toml"))]
    builtin = sorted([*_BUILTIN.glob("signatures/*.toml"), *_BUILTIN.glob("bands/*.toml")])
    files = args.files or [*builtin, *users, *config.band_files]
    problems = check_files(files, vocabulary((*config.format_dirs, *existing_folders(args.formats))))
    for problem in problems:
        print(problem)
    return ExitCode.FOUND if problems else ExitCode.DONE


def _test(args: argparse.Namespace) -> int:
    chosen = _known(args.id, _load(args)) if args.id else None
    from perfmon.pipeline import run_examples

    config = load_config(args.config)
    results = run_examples(chosen, config.signature_dirs, config.format_dirs)
    if args.json:
        keys = ("signature", "example", "ok", "text")
        print(json.dumps([{key: getattr(result, key) for key in keys} for result in results], indent=2))
    else:
        for result in results:
            print(f"{'ok    ' if result.ok else 'FAILED'}  {result.signature}: {result.example}")
            if not result.ok:
                print(f"        {result.text}")
    return ExitCode.DONE if all(result.ok for result in results) else ExitCode.FOUND
