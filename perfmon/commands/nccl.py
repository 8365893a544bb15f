"""`perfmon nccl`: logs of NCCL Inspector, with --hang the rank that is behind; `perfmon profile`: profiler traces."""

from __future__ import annotations

import argparse
import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from perfmon.core import ExitCode, InputError, UsageError, plain

from ._options import ProgressBar, completes_files, completes_folders, on_disk, seconds, warn, write_output
from ._remote import add_login_arguments
from ._screen import check_keys, need_terminal, themes_for

if TYPE_CHECKING:
    from perfmon.exporters import Uploader
    from perfmon.hangs import RasReport
    from perfmon.monitor import Feed
    from perfmon.nccl import Job, JobAnalysis, RayEngine
    from perfmon.profile import Profile

    from ._remote import Wanted


DESCRIPTION = """\
Analyze the logs that the profiler plugin NCCL Inspector writes, one of each process: bus bandwidth by collective and
message size, the rank that others wait for, and the communicator whose transfers take longer than those of its peers.
The summary goes to stdout; -o writes summary files with the names and columns of NVIDIA's exporter, plots, and pages.

DIR is a folder or a file: *.log, *.log.gz, *.jsonl and *.jsonl.gz, also mixed and nested. All formats from v4.0 (NCCL
2.28) on are read. Needs the 'nccl' extra (DuckDB).

--upload URL sends the results and a document of each operation to Elasticsearch ('elasticsearch' extra); a repeated
upload replaces them. Credentials are read from ELASTIC_API_KEY, or from ELASTIC_USERNAME and ELASTIC_PASSWORD. --kibana
FILE writes a dashboard for these documents, to be imported in Kibana.

--hang instead names the rank that holds up a hung job, from a folder with flight-recorder dumps of PyTorch (pickle or
JSON), logs with watchdog lines, or both: the oldest outstanding operation of each rank gives the ranks that all others
wait for. Where the evidence does not decide, the report states so. With HOST:PORT the job's NCCL RAS is queried once
(NCCL 2.24 or newer, port 28028), for a job that already hangs: a query has crashed jobs with some versions of NCCL."""
EXAMPLE = "perfmon nccl nccl-inspector-12345/ -o report/"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    about = "folder of logs, or a log; with --live also user@host:/DIR"
    completes_files(parser.add_argument("paths", metavar="DIR", nargs="*", help=about))
    parser.add_argument("--jobid", metavar="ID", help="read the logs of this Slurm job, and write to ID-insp/")
    completes_files(
        parser.add_argument(
            "--config",
            metavar="INI",
            type=Path,
            help="file with [paths] default_log_root, for --jobid (default: ./perf_summary_exporter_config.ini)",
        )
    )
    completes_folders(
        parser.add_argument(
            "-o", "--output", metavar="OUT", type=on_disk, help="write the report files into this folder"
        )
    )
    parser.add_argument("--all-plots", action="store_true", help="draw every size, not only those that take time")
    parser.add_argument("--parquet", action="store_true", help="also write the records as Parquet")
    parser.add_argument("--hardware", metavar="NAME", help="show the share of the bandwidth of a100, h100 or b200")
    parser.add_argument(
        "--engine",
        metavar="NAME",
        default="local",
        help="local (default), or ray[=HOST:PORT] to aggregate on an existing Ray cluster whose nodes see DIR",
    )
    parser.add_argument(
        "--fail-on", choices=["warning", "critical"], help="exit with 1 if a finding has this severity or a higher one"
    )
    parser.add_argument(
        "--live",
        action="store_true",
        help="follow the logs of a running job in the monitor (without DuckDB); with --json: one line of JSON whenever"
        " the findings change, until Ctrl+C",
    )
    add_login_arguments(parser)
    add_upload_arguments(parser)
    add_hang_arguments(parser)


def add_upload_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of --upload."""
    upload = parser.add_argument_group("Elasticsearch and Kibana")
    upload.add_argument("--upload", metavar="URL", help="send the results to Elasticsearch, after the other output")
    upload.add_argument("--index", metavar="NAME", help="index of the documents (default: perfmon-nccl)")
    completes_files(
        upload.add_argument("--ca-file", metavar="FILE", type=Path, help="certificates (PEM) that vouch for the server")
    )
    upload.add_argument(
        "--no-operations", action="store_true", help="leave out the documents of single operations, which are the most"
    )
    completes_files(
        upload.add_argument("--kibana", metavar="FILE", type=Path, help="write a Kibana dashboard (-: standard output)")
    )


def add_hang_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of --hang."""
    parser.add_argument(
        "--hang",
        metavar="DIR|HOST:PORT",
        help="name the rank that is behind: folder of dumps and logs, or NCCL RAS, also ssh://HOST/localhost:28028",
    )
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print the report as JSON")
    output.add_argument("--markdown", action="store_true", help="with --hang: print the report as Markdown")
    parser.add_argument(
        "--dossier",
        action="store_true",
        help="with --hang: also dump the stacks of the ranks that are behind, if they run on this host and py-spy is"
        " installed (it reads the memory of the processes)",
    )
    parser.add_argument("--yes", action="store_true", help="with --hang HOST:PORT: query without confirmation")


def run(args: argparse.Namespace) -> int:
    """Reads, analyzes and reports."""
    if args.hang is not None:
        if args.paths or args.jobid or args.output or args.upload or args.kibana:
            raise UsageError(
                "--hang reads its own folder or address: leave out DIR, --jobid, -o, --upload and --kibana"
            )
        return run_hang(args)
    if args.live:
        return run_live(args)
    if args.markdown or args.dossier or args.yes:
        raise UsageError("--markdown, --dossier and --yes are for --hang")
    if args.ssh_config is not None or args.accept_new:
        raise UsageError("--ssh-config and --accept-new are for other hosts, with --live or --hang")
    uploader = _uploader(args)
    if args.kibana is not None:
        _write_dashboard(args)
        if not args.paths and args.jobid is None:
            return ExitCode.DONE
    from perfmon.core import Severity
    from perfmon.nccl import Job, ceiling, job_folder, job_metadata
    from perfmon.reports import NcclFiles, WorkLog, nccl_document, nccl_text, prepare_folder, write_nccl_report

    output = _checked_output(args)
    most = ceiling(args.hardware) if args.hardware else None
    engine = _engine(args.engine)
    paths = [Path(path) for path in args.paths] if args.jobid is None else [job_folder(args.jobid, args.config)]
    log = WorkLog()
    with Job(paths) as job, ProgressBar("reading logs") as bar:
        known = job_metadata(args.jobid) if args.jobid else None
        found = job.analyze(bar, metadata=known, engine=engine, slurm_job=args.jobid)
        if output is not None:
            # Only now: the folder of an earlier report is emptied when there is a new one.
            _keep_logs(output, job)
            prepare_folder(output)
            write_nccl_report(job, found, output, NcclFiles(args.all_plots, args.parquet, most), log)
            print(output, file=sys.stderr if args.json else sys.stdout)
        if args.json:
            sys.stdout.write(json.dumps(nccl_document(found), indent=2, allow_nan=False) + "\n")
        elif output is None:
            sys.stdout.write(nccl_text(found, most))
        if found.skipped and output is not None:
            print(f"perfmon: {found.skipped:,} lines skipped (see {output / 'output.log'})", file=sys.stderr)
        if uploader is not None:
            _upload(args, job, found, uploader)
    bar_reached = args.fail_on and any(f.severity.rank >= Severity(args.fail_on).rank for f in found.findings)
    return ExitCode.FOUND if bar_reached else ExitCode.DONE


def _checked_output(args: argparse.Namespace) -> Path | None:
    if (args.jobid is None) == (not args.paths):
        raise UsageError("give either DIR or --jobid ID, or --hang DIR|HOST:PORT (see perfmon nccl --help)")
    if args.config is not None and args.jobid is None:
        raise UsageError("--config INI is for --jobid: a folder needs none")
    output: Path | None = args.output
    if output is None and args.jobid is not None and not args.json:
        output = Path(f"{args.jobid}-insp")
    if output is None and (args.all_plots or args.parquet):
        raise UsageError("--all-plots and --parquet write files: name a folder with -o OUT")
    return output


def _keep_logs(output: Path, job: object) -> None:
    """Raises UsageError where the logs are in the folder of the report, which is emptied."""
    from perfmon.nccl import Job

    assert isinstance(job, Job)  # noqa: S101
    inside = output.resolve()
    if any(inside in file.path.resolve().parents for file in job.files):
        raise UsageError(f"{output}: holds the logs that are read (choose another folder)")


def run_live(args: argparse.Namespace) -> int:
    """Opens the monitor, or prints lines of JSON."""
    if args.jobid or args.output or args.parquet or args.all_plots or not args.paths:
        raise UsageError("--live follows folders: perfmon nccl DIR --live, and no --jobid or files to write")
    if args.upload or args.kibana or args.engine != "local":
        raise UsageError("--upload, --kibana and --engine are for logs that are complete: leave out --live")
    sources = [f"nccl={path}" for path in args.paths]
    from perfmon.monitor import absent_folders

    from ._remote import HISTORY, connect, feed_of, requested_pollers, sort_specs
    from ._screen import Screen, need_terminal

    wanted = sort_specs(sources)
    for folder in absent_folders(wanted.inspector):
        warn(f"{plain(folder, 200)}: no such folder yet (waiting for it)")
    if args.json:
        return _print_live(args, wanted)
    from perfmon.core import load_config
    from perfmon.sources.pollers import DEFAULT

    from ._options import WINDOW_S

    need_terminal()
    fleet = connect(args, wanted.remote, history=HISTORY, pollers=DEFAULT) if wanted.remote else None
    pollers = requested_pollers(wanted, no_polls=False)

    def feed() -> Feed:
        return feed_of(fleet, wanted.local, pollers=pollers, inspector=wanted.collectives)

    screen = argparse.Namespace(window=WINDOW_S, layout="auto", theme=None, no_mouse=False)
    return Screen(args=screen, title=" ".join(sources), specs=sources, feed=feed).open(load_config())


def _print_live(args: argparse.Namespace, wanted: Wanted) -> int:
    """Prints the state whenever the findings change, and at the end; ends with Ctrl+C."""
    import threading
    from dataclasses import asdict

    from perfmon.core import Config
    from perfmon.monitor import Monitor
    from perfmon.reports import finding_document, json_object
    from perfmon.viewmodel import MonitorState

    from ._remote import HISTORY, connect, feed_of

    fleet = connect(args, wanted.remote, history=HISTORY) if wanted.remote else None
    monitor = Monitor(lambda: feed_of(fleet, wanted.local, inspector=wanted.collectives), Config())
    known: list[object] = [None]

    def report(picture: MonitorState) -> None:
        findings = [] if picture.snapshot is None else picture.snapshot.findings
        firing = [finding_document(finding) for finding in findings if finding.state != "pending"]
        named = [(one["signature"], one["identity"], one["state"]) for one in firing]
        if named != known[0] and picture.collectives is not None and picture.collectives.lines:
            known[0] = named
            line = json_object({"schema": 1, "findings": firing, "collectives": asdict(picture.collectives)})
            print(json.dumps(line, allow_nan=False), flush=True)

    monitor.listeners.append(report)
    monitor.start()
    try:
        while monitor.running:
            threading.Event().wait(0.5)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    finally:
        monitor.stop()
    if monitor.failed is not None:
        raise monitor.failed
    return ExitCode.DONE


def _engine(text: str) -> RayEngine | None:
    """Engine by its name; None is the local one. Raises UsageError or MissingExtraError."""
    from perfmon.cluster import RayCluster
    from perfmon.nccl import RayEngine

    cluster = RayCluster.of_option(text)
    return None if cluster is None else RayEngine(cluster)


def _uploader(args: argparse.Namespace) -> Uploader | None:
    """Server and index of --upload. Raises UsageError for arguments that do not fit."""
    if args.upload is None:
        if args.ca_file is not None or args.no_operations or (args.index is not None and args.kibana is None):
            raise UsageError("--ca-file, --no-operations and --index are for --upload URL")
        return None
    from perfmon.exporters import INDEX, Uploader

    return Uploader(args.upload, INDEX if args.index is None else args.index, args.ca_file)


def _write_dashboard(args: argparse.Namespace) -> None:
    from perfmon.exporters import INDEX, kibana_dashboard

    write_output(kibana_dashboard(INDEX if args.index is None else args.index), args.kibana, ".ndjson", "dashboard:")


def _upload(args: argparse.Namespace, job: Job, found: JobAnalysis, uploader: Uploader) -> None:
    """Upload the results and print the counts. Raises InputError if documents were refused."""
    from perfmon.exporters import JobDocuments, job_name

    name = job_name([Path(path) for path in args.paths], args.jobid)
    documents = JobDocuments(job, found, name, not args.no_operations)
    total = documents.count()
    sys.stdout.flush()
    with ProgressBar("uploading", counts=True) as bar:
        done = uploader.send(documents, advance=lambda count: bar(count, total))
    line = f"{uploader.url}/{uploader.index}: {done.summary}"
    if done.refused:
        raise InputError(line)
    warn(line)


def run_hang(args: argparse.Namespace) -> int:
    """The report of --hang."""
    from perfmon.hangs import run as report_hang

    form = "json" if args.json else "markdown" if args.markdown else "text"
    querying = partial(_query_over_ssh, args)
    return report_hang(args.hang, form=form, with_dossier=args.dossier, agreed=args.yes, querying=querying)


def _query_over_ssh(args: argparse.Namespace, through: str, host: str, port: int) -> RasReport:
    """Query NCCL RAS as a host sees it. Raises ConnectError or InputError."""
    from perfmon.hangs import ask
    from perfmon.sources.remote import RemoteSpec, parse_host

    from ._remote import connect

    fleet = connect(args, [RemoteSpec(through, parse_host(through), "")], history=0, again=False)
    try:
        return fleet.through(through, lambda opener: ask(opener, host, port))
    finally:
        fleet.close()


# --- `perfmon profile`: traces of PyTorch's profiler and of Nsight Systems ---


class ProfileTraces:
    """The command `profile`."""

    DESCRIPTION = """\
Analyze profiler traces: of every GPU the time it computes, communicates, copies and is idle; what the idle time waits
for (late launches, other kernels, other streams); long gaps with what the host did in them; waits for the DataLoader
that nothing hides; synchronisation on an idle GPU; copies from pageable memory; the rank that the others wait for in
collectives.

FILE is a trace of PyTorch's profiler (*.json, *.json.gz), an export of Nsight Systems (nsys export --type sqlite), or a
folder of them, one of each rank."""
    EXAMPLE = "perfmon profile traces/"

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        """Declares the arguments."""
        completes_files(
            parser.add_argument("paths", metavar="FILE", nargs="+", type=Path, help="trace, or folder of traces")
        )
        parser.add_argument(
            "--gap", metavar="TIME", type=seconds, default=0.001, help="list gaps from this length on (default: 1 ms)"
        )
        about = "local (default), or ray[=HOST:PORT] to read the traces on an existing Ray cluster whose nodes see them"
        parser.add_argument("--engine", metavar="NAME", default="local", help=about)
        output = parser.add_mutually_exclusive_group()
        output.add_argument("--json", action="store_true", help="print the report as JSON")
        output.add_argument("--tui", action="store_true", help="open a timeline of the GPUs in the terminal")
        output.add_argument("--markdown", action="store_true", help="print the report as Markdown")

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        """Reads, evaluates and reports."""
        from perfmon.cluster import RayCluster
        from perfmon.profile import read_profile
        from perfmon.reports import profile_document, profile_markdown, profile_text

        if args.tui:
            need_terminal("--tui needs a terminal (without one: leave it out, or --json, --markdown)")
        cluster = RayCluster.of_option(args.engine)
        with ProgressBar("reading traces") as bar:
            found = read_profile(args.paths, round(args.gap * 1e9), bar, cluster=cluster, pictures=args.tui)
        if args.tui:
            return _open_timeline(args, found)
        if args.json:
            sys.stdout.write(json.dumps(profile_document(found), indent=2, allow_nan=False) + "\n")
        else:
            sys.stdout.write(profile_markdown(found) if args.markdown else profile_text(found))
        return ExitCode.DONE


def _open_timeline(args: argparse.Namespace, found: Profile) -> int:
    """Show the timeline until the user leaves it."""
    from perfmon.core import load_config, plain
    from perfmon.textgraphics import glyphs_for
    from perfmon.tui import AppOptions, ProfileApp

    config = load_config()
    check_keys(config)
    themes, theme = themes_for(config, None)
    name = plain(args.paths[0].name or str(args.paths[0]), 60)
    title = name if len(args.paths) == 1 else f"{name} and {len(args.paths) - 1} more"
    app = ProfileApp(found, AppOptions(title, themes, theme, "auto", config.keys, glyphs_for(os.environ)))
    code = app.run()
    if app.fault is not None:
        raise app.fault
    return code or ExitCode.DONE
