"""`perfmon export`: what is measured, for Prometheus, Alertmanager, Grafana and Perfetto."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from perfmon.core import WHOLE, ExitCode

from ._options import (
    add_baseline_argument,
    add_data_arguments,
    add_sources_argument,
    add_text_output_argument,
    add_time_range_arguments,
    add_window_argument,
    examine_logs,
    is_printed,
    raise_failure,
    read_config,
    warn,
    write_output,
)
from ._remote import add_polls_argument, add_reach_arguments, connect, feed_of, requested_pollers, sort_specs

if TYPE_CHECKING:
    from perfmon.core import Config
    from perfmon.exporters import Server
    from perfmon.monitor import Feed

DESCRIPTION = """\
Export measurements and findings to Prometheus, with alert rules and a Grafana dashboard generated from the active
signatures and thresholds; or write a run of logs as a trace for Perfetto."""
EXAMPLE = "perfmon export prometheus outputs/run/logs"
_ABOUT = {
    "prometheus": "follow logs without a screen and serve /metrics",
    "alert-rules": "print Prometheus alert rules generated from signatures and thresholds",
    "grafana": "print a Grafana dashboard generated from signatures and thresholds",
    "trace": "write complete logs as a trace in Chrome's format, for Perfetto",
}
_TRACES = """\
Write a run of complete logs as a trace in Chrome's JSON format, which Perfetto (ui.perfetto.dev) and chrome://tracing
show: spans by log and kind, counters of all metrics, steps, findings, and arrows between the sides of each weight
update, and from the producer of an item through its queue to the consumer. Times are those of the logs, so that a trace
of PyTorch's profiler of the same run can be opened with it. The name of the file may end in .gz."""
_SERVES = """\
Monitor a run without a screen and serve /metrics to Prometheus: metrics by log and group, thresholds, findings, the
time breakdown, logs, GPUs, hosts and queues. It keeps serving after the run has ended, until Ctrl+C (exit code 130) or
SIGTERM (exit code 0). It listens on localhost unless --listen is given."""
PORT = 9477
_LOOK_S = 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(dest="kind", metavar="WHAT", required=True)
    serving = _subcommand(kinds, "prometheus", _SERVES, EXAMPLE)
    add_sources_argument(serving)
    serving.add_argument("--port", type=port, default=PORT, metavar="N", help=f"port, 0 for any (default: {PORT})")
    serving.add_argument("--listen", metavar="ADDRESS", default="127.0.0.1", help="listen address (default: 127.0.0.1)")
    serving.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="serve requests for this host name, too (repeatable; addresses and the name of this machine always are)",
    )
    add_window_argument(serving)
    serving.add_argument("--no-history", action="store_true", help="skip existing content and read only new lines")
    add_polls_argument(serving)
    add_baseline_argument(serving)
    add_reach_arguments(serving)
    add_data_arguments(serving)
    tracing = _subcommand(kinds, "trace", _TRACES, "trace outputs/run/logs -o run.json.gz")
    add_sources_argument(tracing, "logs to read, as for analyze")
    add_text_output_argument(tracing, "output file (default: stdout)")
    add_time_range_arguments(tracing)
    add_data_arguments(tracing)
    for kind, example in (("alert-rules", "perfmon.rules.yml"), ("grafana", "perfmon-dashboard.json")):
        made = _subcommand(kinds, kind, f"{_ABOUT[kind][0].upper()}{_ABOUT[kind][1:]}.", f"{kind} -o {example}")
        add_text_output_argument(made, "output file (default: stdout)")
        add_data_arguments(made)


def _subcommand(
    kinds: argparse._SubParsersAction[argparse.ArgumentParser], name: str, about: str, example: str
) -> argparse.ArgumentParser:
    typed = example if example.startswith("perfmon") else f"perfmon export {example}"
    return kinds.add_parser(name, help=_ABOUT[name], description=about, epilog=f"example: {typed}")


def port(text: str) -> int:
    """A port, for argparse; 0 is any."""
    if not (text.isascii() and text.isdecimal() and int(text) < 65536):
        raise argparse.ArgumentTypeError(f"expected a port from 0 to 65535, not {text!r}")
    return int(text)


def run(args: argparse.Namespace) -> int:
    config = read_config(args)
    if args.kind == "prometheus":
        return _serve(args, config)
    if args.kind == "trace":
        return _write_trace(args, config)
    write_output(_made(args.kind, config), args.output, ".json" if args.kind == "grafana" else ".yml", "wrote")
    return ExitCode.DONE


def _write_trace(args: argparse.Namespace, config: Config) -> int:
    from perfmon.exporters import save_chrome_trace
    from perfmon.reports import keep_what_was_read

    snapshot, view, _ = examine_logs(config, args.spec, since=args.since, until=args.until, detail=WHOLE)
    keep_what_was_read(args.output, [source.spec for source in snapshot.run.sources])
    target = None if args.output is None or is_printed(args.output) else args.output
    count = save_chrome_trace(snapshot, view, target, sys.stdout)
    if target is not None:
        warn(f"wrote {target}: {count:,} events; open it at ui.perfetto.dev")
    return ExitCode.DONE


def _made(kind: str, config: Config) -> str:
    from perfmon.exporters import dashboard, render_alert_rules
    from perfmon.pipeline import vocabulary
    from perfmon.rules import Bands, load_bands, load_signatures

    known = vocabulary(config.format_dirs).metrics  # of no other metric there will ever be anything to see
    limits = {metric: band for metric, band in load_bands(config.band_files).table.items() if metric in known}
    make = render_alert_rules if kind == "alert-rules" else dashboard
    return make(load_signatures(config.signature_dirs), Bands(limits))


# --- serving ----------------------------------------------------------------------------------------------------------
def _serve(args: argparse.Namespace, config: Config) -> int:
    from perfmon.exporters import Exporter, Server
    from perfmon.monitor import Monitor
    from perfmon.rules import load_signatures

    signatures = load_signatures(config.signature_dirs)
    server = Server(
        args.listen, args.port, args.allow_host
    )  # a port that cannot be had is reported before a password is requested
    try:
        monitor = Monitor(_feed(args), config, window_s=args.window)
        monitor.slow(True)
        monitor.look(None, args.window, 1)
        changed = threading.Event()
        with _stop_signals(changed) as received:
            monitor.start(changed.set)
            try:
                server.start(Exporter(monitor, signatures).app)
                _announce(server)
                while not received:
                    raise_failure(monitor)
                    changed.wait(_LOOK_S)
                    changed.clear()
                return ExitCode.INTERRUPTED if received[-1] == signal.SIGINT else ExitCode.DONE
            finally:
                monitor.stop()
    finally:
        server.close()


@contextmanager
def _stop_signals(changed: threading.Event) -> Iterator[list[int]]:
    """Collect Ctrl+C and SIGTERM, so that they stop the program cleanly."""
    received: list[int] = []

    def receive(number: int, _: object) -> None:
        received.append(number)
        changed.set()

    before = {number: signal.signal(number, receive) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _feed(args: argparse.Namespace) -> Callable[[], Feed]:
    """Connects where that is needed."""
    from perfmon.sources import discover
    from perfmon.sources.pollers import DEFAULT

    found, history = sort_specs(args.spec), not args.no_history
    pollers = requested_pollers(found, args.no_polls)
    if found.local:
        discover(found.local)  # what does not exist, or holds nothing, is reported at once
    fleet = None
    if found.remote:
        there = () if args.no_polls else DEFAULT
        fleet = connect(args, found.remote, history=args.history if history else 0, pollers=there)
    return lambda: feed_of(fleet, found.local, history=history, pollers=pollers, inspector=found.collectives)


def _announce(server: Server) -> None:
    text = f"perfmon: metrics are at {server.url}/metrics (Ctrl+C stops)\n"
    if not server.loopback:
        text += "perfmon: no login, no encryption: anyone who can reach this address can read them\n"
    sys.stderr.write(text)  # at once: who has read where must have been warned, too
    sys.stderr.flush()
