"""`perfmon rules`: the signatures that findings come from, browsed, explained, checked and tested."""

from __future__ import annotations

import argparse
import difflib
import json
import re
import textwrap
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import perfmon.rules
from perfmon.core import ExitCode, PerfmonError, UsageError, counted, format_value, load_config, metric_unit

from ._options import (
    Offered,
    add_config_argument,
    add_formats_argument,
    check_files_exist,
    completes_files,
    existing_folders,
)

if TYPE_CHECKING:
    from perfmon.rules import Band, Bands, Condition, Signature, Subject


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


# --- A signature in words, for a terminal ---

_WIDTH = 88
_SUBJECTS = {
    "span": "each {name}",
    "metric": "each sample of {name}",
    "mark": "each mark {name}",
    "quiet": "each gap of {name}",
    "absence": "each interval without a {name}",
    "open": "each {name} that is still open",
    "limit": "the {name} that the run needs and has",
    "failure": "each failure that ends a run or a part of it: {name}",
    "finding": "each occurrence of {name}",
}
_QUIET = {"all": "all logs", "one": "one log"}


def explain(signature: Signature, bands: Bands | None = None) -> str:
    """A signature in words: meaning, conditions, fix, precedence, limits, similar ones and examples.

    `bands` are the limits to show; the built-in ones when left out.
    """
    from perfmon.rules import load_bands

    bands = bands or load_bands()
    head = f"{signature.title} ({signature.id})"
    parts = [
        f"{head}\n{'=' * len(head)}",
        _wrapped(signature.meaning),
        _section("Subjects", (_subject(subject) for subject in signature.subjects)),
        _section("Fires when", _fires(signature)),
        _section("Fix", signature.advice),
        *(_section(f"Fix ({one.pack})", (*one.advice, *one.commands)) for one in signature.advice_for),
        *(_section(f"Fix ({cause})", advice) for cause, advice in signature.advice_by_cause.items()),
        _section("Commands", signature.commands),
        _section("Often confused with", signature.confused_with),
        _section("Explained by", (f"{c.signature} (by {_MATCH[c.match]})" for c in signature.causes)),
        _section("Precedence", _precedence(signature)),
        _section("Thresholds", (_band(band) for band in _used(signature, bands))),
        _section("Confidence is higher with", (message for _, message in signature.unseen)),
        _section("Examples", (_example(e.name, e.fires, e.verdict) for e in signature.examples)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


_MATCH = {
    "key": "the same step", "time": "the same time", "lost": "the time both cost",
    "each": "the time of half of the occurrences",
}  # fmt: skip


def _wrapped(text: str, indent: str = "") -> str:
    hanging = " " * len(indent)  # options such as --cuda-graph-max-bs stay whole
    return textwrap.fill(text, _WIDTH, initial_indent=indent, subsequent_indent=hanging, break_on_hyphens=False)


def _section(title: str, lines: Iterable[str]) -> str:
    texts = [_wrapped(line, "  - ") for line in lines]
    return "\n".join([title, *texts]) if texts else ""


def _subject(subject: Subject) -> str:
    name = _QUIET.get(subject.name, subject.name) if subject.kind == "quiet" else subject.name.replace("|", " or ")
    text = _SUBJECTS[subject.kind].format(name=name)
    return f"{text} as well" if subject.also else text


def _fires(signature: Signature) -> Iterator[str]:
    for condition in signature.conditions:
        yield f"{condition.explain()}{_standing(condition)}"
    (least, of), (worst, worst_of) = signature.critical_count, signature.for_count
    critical = "once" if least == 1 else f"{least} of {of} times"
    yield f"critical {critical}, or warning or worse {worst} of {worst_of} times"
    if signature.for_s:
        yield f"for at least {format_value(signature.for_s, 's')}"
    if signature.skip_first:
        yield f"the first {counted(signature.skip_first, 'sample')} of each log skipped"


def _standing(condition: Condition) -> str:
    if not condition.must_hold:
        return " (raises the confidence)"
    return " (if logged)" if condition.if_missing == "pass" else ""


def _precedence(signature: Signature) -> Iterator[str]:
    yield f"rank {signature.rank}: of several findings for the same time the lowest rank takes it"
    yield f"{signature.kind}, at most {signature.severity}"
    yield f"resolved {format_value(signature.keep_firing_for_s, 's')} after its last occurrence"


def _used(signature: Signature, bands: Bands) -> list[Band]:
    from perfmon.rules import metrics_of

    names = dict.fromkeys(metrics_of(signature))
    return [band for band in map(bands.get, names) if band is not None]


def _band(band: Band) -> str:
    unit = metric_unit(band.metric)
    above = f"{band.relative_to} + " if band.relative_to else ""
    good, critical = format_value(band.good, unit), format_value(band.critical, unit)
    signs = ("<" if not band.good_is_inclusive else "≤", ">") if band.higher_is_worse else (">", "<")
    return f"{band.metric}: good {signs[0]} {above}{good}, critical {signs[1]} {above}{critical} ({band.origin})"


def _example(name: str, fires: bool, verdict: bool) -> str:
    return f"{name}: {'fires, and is the verdict' if verdict else 'fires' if fires else 'does not fire'}"
