"""`perfmon doctor` and `perfmon completion`: an installation on this machine, and in its shell."""

from __future__ import annotations

import argparse
import json
import sys

from perfmon.core import ExitCode

from . import COMMANDS, build_parser
from ._options import add_data_arguments, read_config, seconds

_PATIENCE_S = 5.0
"""A driver that no process holds open takes seconds to begin; what answers sooner is not waited for."""
SHELLS = ("bash", "zsh", "fish")
_EVALUATED, _SOURCED = "$zsh_eval_context[-1] == eval", "$zsh_eval_context[-1] == (eval|file)"
"""The condition in shtab's script for zsh, and one that also works with `source`."""


class Doctor:
    """The command `doctor`."""

    DESCRIPTION = """\
Check what perfmon can use on this machine: terminal, logs, GPUs, endpoints, Ray, Slurm, SSH, libraries, configuration.
Each problem is shown with its impact and its fix. Nothing is changed.

The exit code is 0, or 2 if the configuration is broken."""
    EXAMPLE = "perfmon doctor"

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print the results as JSON")
        parser.add_argument(
            "--patience", metavar="TIME", type=seconds, default=_PATIENCE_S, help="maximum time to wait (default: 5s)"
        )
        add_data_arguments(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        from perfmon.doctor import PROBES, Probe, State, configuration, document, examine, lines

        settings = configuration(lambda: read_config(args))
        first = Probe("configuration", PROBES[0].group, "configuration", settings, "configuration files are valid")
        checks = examine([first, *PROBES], args.patience)
        if args.json:
            json.dump(document(checks), sys.stdout, indent=2, ensure_ascii=False)
            sys.stdout.write("\n")
        else:
            print("\n".join(lines(checks)))
        broken = any(check.finding.state is State.BROKEN for check in checks)
        return ExitCode.USAGE if broken else ExitCode.DONE


class Completion:
    """The command `completion`."""

    DESCRIPTION = "Print the script that completes perfmon's commands, options and files."
    EXAMPLE = 'eval "$(perfmon completion bash)"   (zsh alike; fish: perfmon completion fish | source)'

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("shell", choices=SHELLS, help="target shell")

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        import shtab

        print(shtab.complete(build_parser(tuple(COMMANDS)), args.shell).replace(_EVALUATED, _SOURCED))
        return 0
