"""`perfmon formats`: what reads the lines of logs; learned from a log, listed, checked."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from perfmon.core import ExitCode, load_config

from ._options import add_config_argument, add_formats_argument, check_files_exist, completes_files, existing_folders

if TYPE_CHECKING:
    from perfmon.sources.formats import Pack

DESCRIPTION = "A format is a TOML file with patterns and samples that defines how the lines of a log are parsed."
EXAMPLE = "perfmon formats learn train.log --id my-trainer --install"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)
    learn = actions.add_parser(
        "learn", help="propose a format for a log that perfmon does not recognise", epilog=f"example: {EXAMPLE}"
    )
    completes_files(learn.add_argument("log", metavar="LOG", help="log file; its first 64 MB are used"))
    learn.add_argument("--id", metavar="NAME", help="name of the format (default: the name of the log)")
    goes = learn.add_mutually_exclusive_group()
    completes_files(goes.add_argument("-o", "--output", metavar="FILE", type=Path, help="output file"))
    goes.add_argument("--install", action="store_true", help="install it in the user's configuration")
    learn.add_argument("--all", action="store_true", help="include lines that perfmon already recognises")
    listing = actions.add_parser("list", help="list all formats", epilog="example: perfmon formats list")
    check = actions.add_parser(
        "check", help="validate format files", epilog="example: perfmon formats check my-trainer.toml"
    )
    completes_files(check.add_argument("files", metavar="FILE", type=Path, nargs="+", help="files to check"))
    for action in (learn, listing, check):
        add_formats_argument(action)
        add_config_argument(action)


def run(args: argparse.Namespace) -> int:
    return {"learn": _learn, "list": _list, "check": _check}[args.action](args)


def _packs(args: argparse.Namespace) -> tuple[Pack, ...]:
    from perfmon.sources.formats import load_packs

    return load_packs((*load_config(args.config).format_dirs, *existing_folders(args.formats)))


def _learn(args: argparse.Namespace) -> int:
    from perfmon.pipeline import format_name, installed, keep, learn

    name, packs = format_name(args.log, args.id or ""), _packs(args)
    target = installed(name, packs) if args.install else args.output
    proposal = learn(args.log, name, packs, args.all)
    if target is None:
        print(proposal.toml, end="")
        return ExitCode.DONE
    names = ", ".join(proposal.found)
    print(f"{keep(proposal, target)}: reads {proposal.recognised} of {proposal.lines} lines ({names})")
    return ExitCode.DONE


def _list(args: argparse.Namespace) -> int:
    packs = _packs(args)
    width = max(len(pack.id) for pack in packs)
    for pack in packs:
        print(f"{pack.id:{width}}  {len(pack.patterns):3} patterns  {pack.title}")
    return ExitCode.DONE


def _check(args: argparse.Namespace) -> int:
    from perfmon.core import DataFileError
    from perfmon.sources.formats import load_pack, sample_problems

    packs = _packs(args)
    problems = []
    check_files_exist(args.files)
    for file in args.files:
        try:
            pack = load_pack(file)
        except DataFileError as error:
            problems.append(str(error))
            continue
        problems += [f"{file}: {problem}" for problem in sample_problems(pack, packs)]
    for problem in problems:
        print(problem)
    return ExitCode.FOUND if problems else ExitCode.DONE
