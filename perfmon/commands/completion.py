"""`perfmon completion`: the completion script of a shell, made from the argument parser."""

from __future__ import annotations

import argparse

from . import COMMANDS, build_parser

DESCRIPTION = "Print the script that completes perfmon's commands, options and files."
EXAMPLE = 'eval "$(perfmon completion bash)"   (zsh alike; fish: perfmon completion fish | source)'
SHELLS = ("bash", "zsh", "fish")
_EVALUATED, _SOURCED = "$zsh_eval_context[-1] == eval", "$zsh_eval_context[-1] == (eval|file)"
"""The condition in shtab's script for zsh, and one that also works with `source`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="target shell")


def run(args: argparse.Namespace) -> int:
    import shtab

    print(shtab.complete(build_parser(tuple(COMMANDS)), args.shell).replace(_EVALUATED, _SOURCED))
    return 0
