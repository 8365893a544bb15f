"""`perfmon compare`: two runs side by side."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from perfmon.core import ExitCode, InputError, UsageError, plain

from ._options import (
    ProgressBar,
    add_data_arguments,
    add_text_output_argument,
    completes_files,
    examine_logs,
    read_config,
    seconds,
    warn,
    write_output,
)

if TYPE_CHECKING:
    from perfmon.comparison import Comparison, Criterion, Run
    from perfmon.core import Config

DESCRIPTION = """\
Compare two runs: every metric with a confidence interval of its change, findings that are gone, new or still present,
the time breakdown, the criteria, and one verdict (fixed, improved, unchanged, regressed, mixed, cannot tell). Only
changes that are significant and large enough to matter count.

BEFORE and AFTER are sources as for analyze: a folder, a file, a quoted glob, an archive of logs, a recording. Of two
folders with logs of NCCL Inspector, transfer times by collective and size, waits of ranks and links are compared. Of
two traces of a profiler (or folders of them), what the time of the GPUs goes to, steps and named ranges are."""
EXAMPLE = "perfmon compare before/ after/ --fail-on regression --fail-on cannot-tell"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    completes_files(parser.add_argument("before", metavar="BEFORE", help="baseline run"))
    completes_files(parser.add_argument("after", metavar="AFTER", help="run to evaluate"))
    parser.add_argument("--json", action="store_true", help="print the comparison as JSON")
    add_text_output_argument(parser, "write a Markdown page (with --json: the document)")
    about = (
        "exit with 1 if something regressed, if a criterion is not met, or if the result is inconclusive (repeatable)"
    )
    choices = ["regression", "criteria", "cannot-tell"]
    parser.add_argument("--fail-on", action="append", default=[], choices=choices, help=about)
    about = "criteria that replace the built-in ones"
    completes_files(parser.add_argument("--criteria", metavar="FILE", type=Path, help=about))
    about = "ignore the start of both runs (such as 1m of warm-up)"
    parser.add_argument("--skip", metavar="TIME", type=seconds, help=about)
    about = "use only this much of both runs, after --skip"
    parser.add_argument("--first", metavar="TIME", type=seconds, help=about)
    add_data_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from perfmon.nccl import holds_records

    inspector = [holds_records(Path(spec)) for spec in (args.before, args.after) if Path(spec).exists()]
    if any(inspector):
        if inspector != [True, True]:
            raise UsageError("one of BEFORE and AFTER has logs of NCCL Inspector, and the other has not")
        return _run_nccl(args)
    from perfmon.profile import holds_traces

    traces = [holds_traces(Path(spec)) for spec in (args.before, args.after)]
    if any(traces) and traces != [True, True]:
        raise UsageError("one of BEFORE and AFTER has traces of a profiler, and the other has none, or also logs")
    from perfmon.comparison import compare, load_criteria
    from perfmon.core import BUILTIN
    from perfmon.reports import keep_what_was_read

    config = replace(read_config(args), baseline=BUILTIN)  # by limits of its own start each would be as usual
    own = args.criteria or config.criteria
    criteria = load_criteria(own) if own or not any(traces) else ()
    _warn_of_names(args.criteria or config.criteria, criteria, config)
    if "criteria" in args.fail_on and not criteria:
        raise UsageError(f"--fail-on criteria: {args.criteria or config.criteria} has no criteria: add a [[criterion]]")
    if args.before == args.after == "-":
        raise UsageError("BEFORE and AFTER cannot both come from stdin: put one of them into a file")
    if all(traces):
        before, after = _read_traces(args, config)
    else:
        before, after = (_read(spec, args, config) for spec in (args.before, args.after))
    comparison = compare(before, after, criteria)
    keep_what_was_read(args.output, [source.spec for run in (before, after) for source in run.snapshot.run.sources])
    of_other_runs = not own and all(result.ok is None for result in comparison.criteria)
    _report(args, replace(comparison, criteria=()) if of_other_runs and not args.json else comparison)
    _warn(args, comparison)
    return ExitCode.FOUND if _found(comparison, args.fail_on) else ExitCode.DONE


def _run_nccl(args: argparse.Namespace) -> int:
    """Compare two jobs by their logs of NCCL Inspector."""
    from perfmon.nccl import Job, compare_jobs, figures_of
    from perfmon.reports import (
        keep_what_was_read,
        nccl_comparison_document,
        nccl_comparison_markdown,
        nccl_comparison_text,
        printed,
    )

    if args.criteria or args.skip is not None or args.first is not None or "criteria" in args.fail_on:
        raise UsageError("--criteria, --skip and --first are not for logs of NCCL Inspector: leave them out")
    sides = []
    for spec in (args.before, args.after):
        with Job([Path(spec)]) as job, ProgressBar("reading logs") as bar:
            sides.append(figures_of(job, job.analyze(bar)))
    found = compare_jobs(*sides)
    keep_what_was_read(args.output, [args.before, args.after])
    if args.json:
        text = printed(nccl_comparison_document(found))
    else:
        text = nccl_comparison_text(found) if args.output is None else nccl_comparison_markdown(found)
    write_output(text, args.output, ".json" if args.json else ".md", f"{found.verdict}; wrote")
    if "regression" in args.fail_on and found.verdict == "cannot tell":
        warn(f"--fail-on regression: cannot tell: {found.sentence}")
    regressed = "regression" in args.fail_on and found.verdict in ("regressed", "mixed")
    unclear = "cannot-tell" in args.fail_on and found.verdict == "cannot tell"
    return ExitCode.FOUND if regressed or unclear else ExitCode.DONE


def _warn_of_names(file: Path | None, criteria: Sequence[Criterion], config: Config) -> None:
    """Warn of criteria of the user whose metrics no format reads: they are never judged."""
    if file is None:
        return
    from perfmon.pipeline import vocabulary

    words = vocabulary(config.format_dirs)
    for at, criterion in enumerate(criteria):
        for metric in criterion.metrics:
            name = metric.partition("{")[0]
            if not words.has_metric(name):
                unknown = f"{plain(name, 80)}: no format reads it{words.near(name)}"
                warn(f"{file}: criterion[{at}].metric: {unknown}")


def _read(spec: str, args: argparse.Namespace, config: Config) -> Run:
    from perfmon.comparison import run_of
    from perfmon.core import FIGURES

    _refuse_document(spec)
    since = None if args.skip is None else f"{args.skip:.3f}"
    until = None if args.first is None else f"{args.first + (args.skip or 0.0):.3f}"
    try:
        return run_of(*examine_logs(config, [spec], since=since, until=until, detail=FIGURES))
    except UsageError as error:
        raise UsageError(_uncut(spec, args, str(error))) from None


def _read_traces(args: argparse.Namespace, config: Config) -> list[Run]:
    """Traces of a profiler, with short parts of them as samples."""
    from perfmon.comparison import Stages, run_of
    from perfmon.profile import BY_NAME, STAGES, WHOLE, as_runs, compared_by, read_profile

    if args.skip is not None or args.first is not None:
        raise UsageError("--skip and --first are not for traces of a profiler: leave them out")
    sides = []
    for spec in (args.before, args.after):
        with ProgressBar("reading traces") as bar:
            sides.append(read_profile([Path(spec)], progress=bar, config=config))
        for note in sides[-1].notes:
            warn(note)
    stages = Stages(WHOLE, "a step", STAGES)
    runs = []
    for diagnosis, view, samples, rules in as_runs(sides[0], sides[1], config):
        held = run_of(diagnosis, samples, rules, BY_NAME).samples
        kept = {name: held[name] for name in sorted(compared_by(held))}
        runs.append(replace(run_of(diagnosis, view, rules), samples=kept, by_means=True, stages=stages))
    return runs


def _uncut(spec: str, args: argparse.Namespace, error: str) -> str:
    """Reasons why a part of a run cannot be selected, by option."""
    from perfmon.core import format_seconds

    if not error.startswith("--since"):
        return error
    if args.skip is not None:
        why = "it is no longer than that, or has no timestamps"
        return f"{spec}: its first {format_seconds(args.skip)} cannot be left out: {why}"
    return f"{spec}: its first {format_seconds(args.first)} cannot be selected: it has no timestamps"


def _refuse_document(spec: str) -> None:
    """A saved diagnosis has statistics but no samples: nothing could be said about chance."""
    if not spec.endswith(".json"):
        return
    try:
        with Path(spec).open("rb") as file:
            head = file.read(400)
    except OSError:
        return  # what is wrong with it is told by who reads it
    if head.lstrip().startswith(b"{") and b'"schema"' in head and b'"perfmon"' in head:
        raise InputError(f"{spec}: a saved diagnosis has no samples to compare: name its logs")


def _report(args: argparse.Namespace, comparison: Comparison) -> None:
    from perfmon.reports import comparison as reports
    from perfmon.reports import printed

    if args.json:
        text, suffix = printed(reports.document(comparison)), ".json"
    else:
        text, suffix = reports.text(comparison) if args.output is None else reports.markdown(comparison), ".md"
    write_output(text, args.output, suffix, f"{comparison.verdict}; wrote")


def _warn(args: argparse.Namespace, comparison: Comparison) -> None:
    """Say on stderr why a `--fail-on` condition was not evaluated: it must not pass for met."""
    if "regression" in args.fail_on and comparison.verdict == "cannot tell":
        warn(f"--fail-on regression: cannot tell: {comparison.sentence}")
    elif "regression" in args.fail_on and not _regressed(comparison) and (unsure := _may_be_worse(comparison)):
        warn(f"--fail-on regression: no significant regression; possible ones: {', '.join(unsure)}")
    open_ones = _open_criteria(comparison)
    if "criteria" in args.fail_on and open_ones:
        warn(f"--fail-on criteria: {open_ones} of {len(comparison.criteria)} criteria could not be judged")


def _may_be_worse(comparison: Comparison) -> list[str]:
    """Metrics whose change would matter and is for the worse, if it is no chance."""
    return [
        change.name
        for change in comparison.metrics
        if change.unsure and change.counts and (change.shifts["mean"].change > 0) == (change.better == "lower")
    ]


def _open_criteria(comparison: Comparison) -> int:
    return sum(result.ok is None for result in comparison.criteria)


def _regressed(comparison: Comparison) -> bool:
    return comparison.verdict in ("regressed", "mixed")


def _found(comparison: Comparison, conditions: Collection[str]) -> bool:
    """Return true if any `--fail-on` condition matches."""
    unjudged = "criteria" in conditions and _open_criteria(comparison) > 0
    return (
        ("regression" in conditions and _regressed(comparison))
        or ("criteria" in conditions and any(result.ok is False for result in comparison.criteria))
        or ("cannot-tell" in conditions and (unjudged or comparison.verdict == "cannot tell"))
    )
