"""`perfmon rules`: the signatures that findings come from, browsed, explained, checked and tested."""

from __future__ import annotations

import argparse
import difflib
import json
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from perfmon.core import ExitCode, InputError, PerfmonError, UsageError, load_config

from ._options import Offered, add_formats_argument, completes_files, existing_folders

if TYPE_CHECKING:
    from perfmon.rules import Signature


# --- The ids of signatures, as shells complete them: read only when somebody asks for a completion script ---

_ID = re.compile(r'(?m)^id\s*=\s*["\']([a-z0-9][\w.-]*)["\']')
"""Other ids would mean something to a shell."""


def signature_ids() -> set[str]:
    """Those that are shipped, and those of the user's configuration."""
    import perfmon.rules

    folders: list[Path] = [Path(perfmon.rules.__path__[0]) / "signatures"]
    with suppress(PerfmonError):  # a wrong configuration is said by the commands
        folders += load_config(None).signature_dirs
    ids: set[str] = set()
    for file in (file for folder in folders for file in folder.glob("*.toml")):
        with suppress(OSError):
            ids.update(_ID.findall(file.read_text("utf-8", "replace"))[:1])
    return ids


DESCRIPTION = "A signature is a TOML file that defines a bottleneck: conditions, advice and examples."
EXAMPLE = "perfmon rules explain frontend-queue"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)
    _add_list(
        actions.add_parser("list", help="list all signatures, most urgent first", epilog="example: perfmon rules list")
    )
    _add_explain(
        actions.add_parser(
            "explain",
            help="explain a signature: meaning, conditions, fix",
            epilog="example: perfmon rules explain frontend-queue",
        )
    )
    _add_check(
        actions.add_parser(
            "check", help="validate signature and threshold files", epilog="example: perfmon rules check mine.toml"
        )
    )
    _add_test(
        actions.add_parser("test", help="run the examples in signatures", epilog="example: perfmon rules test stall")
    )


def run(args: argparse.Namespace) -> int:
    """Does the action."""
    action = {"list": _list, "explain": _explain, "check": _check, "test": _test}[args.action]
    return action(args)


def _add_shared(parser: argparse.ArgumentParser, what_json: str = "") -> None:
    if what_json:
        parser.add_argument("--json", action="store_true", help=f"print {what_json} as JSON")
    completes_files(parser.add_argument("--config", metavar="FILE", type=Path, help="one more configuration file"))


def _add_list(parser: argparse.ArgumentParser) -> None:
    _add_shared(parser, "the list")


def _add_explain(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "id", metavar="ID", choices=Offered(signature_ids), help="signature id, as in `perfmon rules list`"
    )
    _add_shared(parser)


def _add_check(parser: argparse.ArgumentParser) -> None:
    files = parser.add_argument(
        "files", metavar="FILE", type=Path, nargs="*", help="files to check (default: built-in and user files)"
    )
    completes_files(files)
    add_formats_argument(parser)
    _add_shared(parser)


def _add_test(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "id", metavar="ID", nargs="?", choices=Offered(signature_ids), help="signature id (default: all)"
    )
    _add_shared(parser, "the results")


def _load(args: argparse.Namespace) -> dict[str, Signature]:
    from perfmon.rules import load_signatures

    signatures = load_signatures(load_config(args.config).signature_dirs)
    return {signature.id: signature for signature in signatures}


def _known(name: str, ids: Iterable[str]) -> str:
    """`name` when it is one of `ids`, else UsageError with what was perhaps meant."""
    if name in (ids := list(ids)):
        return name
    near = difflib.get_close_matches(name, ids, 1)
    mend = f"did you mean {near[0]}?" if near else "see perfmon rules list"
    raise UsageError(f"{name}: no such signature ({mend})")


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
    for file in args.files:
        if not file.is_file():
            raise InputError(f"{file}: {'not a file' if file.exists() else 'no such file'} (name a *.toml file)")
    users = [file for folder in config.signature_dirs for file in sorted(folder.glob("*.toml"))]
    files = args.files or [*_builtin(), *users, *config.band_files]
    problems = check_files(files, vocabulary((*config.format_dirs, *existing_folders(args.formats))))
    for problem in problems:
        print(problem)
    return ExitCode.FOUND if problems else ExitCode.DONE


def _builtin() -> list[Path]:
    import perfmon.rules

    folder = Path(perfmon.rules.__path__[0])
    return sorted([*folder.glob("signatures/*.toml"), *folder.glob("bands/*.toml")])


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
