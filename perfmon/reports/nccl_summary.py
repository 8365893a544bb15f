"""Reports of NCCL Inspector logs as text, Markdown and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from perfmon.core import counted, format_seconds, format_share, plain
from perfmon.nccl import (
    P2P,
    Ceiling,
    CollectiveStats,
    JobAnalysis,
    LinkRatio,
    PairRatio,
    ProxyTime,
    RankWait,
    binary_size,
)

from .json_report import fields_of, finding_document, json_object
from .layout import inline, markdown_table, one_line, table, wrap

_SHOWN_SIZES = 20
_SHOWN_RANKS = 8
_SHOWN_LINKS = 8
_SHOWN_HOSTS = 8
_MORE = 4
"""Times as many rows has a page."""
_NOTABLE_WAIT, _NOTABLE_LATENESS, _NAMED = 0.02, 0.5, 4
"""Shares of kernel time and of own lateness from which on waiting is stated though no rank is found; ranks named."""
_LEAST_COVERAGE = 0.2
_SIZE_HEAD = ("type", "collective", "size", "ops", "busbw p5", "p50", "p95 GB/s", "transfer p50", "waiting")
_RANK_HEAD = ("rank", "host", "pid", "last in", "caused wait", "origin of", "own lateness")
_LINK_HEAD = ("communicator", "type", "ranks", "ratio", "peers")
_PROXY_HEAD = ("rank", "host", "peer", "direction", "steps", "GPU", "peer's credit", "wire", "flush")
_OF_PAIRS = "Bandwidths of Send and Recv are those of pairs of ranks, each the mean of its operations."
_OF_RANKS = (
    "Of each operation the rank with the shortest kernel time came last, and all others waited for it.",
    "Own lateness is the part of that for which it had not itself waited for another rank.",
)
_PAIR_HEAD = ("sends and receives between", "link", "records", "ratio", "peers")

# --- JSON ---


def nccl_document(found: JobAnalysis) -> dict[str, Any]:
    """The `--json` document, schema 1."""
    waits = {wait.seat.label: wait for wait in found.ranks}
    findings = []
    for finding in found.findings:
        wait = waits.get(finding.identity.get("group", ""))
        blamed = {} if wait is None else {**fields_of(wait.seat, *_SEAT), "share": wait.share}
        findings.append(finding_document(finding) | blamed)
    coverage = found.coverage
    return json_object(
        {
            "schema": 1,
            **fields_of(found, "files", "records", "skipped", "lost", "notes"),
            "formats": found.versions,
            "groups": found.groups,
            "start": found.start_us / 1e6,
            "end": found.end_us / 1e6,
            "job": found.metadata,
            "by": [_stats(stats) for stats in found.by],
            "ranks": [_wait(wait) for wait in found.ranks],
            "links": [_link(link) for link in found.links],
            "pairs": [_pair(pair) for pair in found.pairs],
            "proxies": [
                {**fields_of(one, "comm", *_SEAT, "peer", "direction", "steps"), **one.waits} for one in found.proxies
            ],
            "coverage": {
                "communicators": coverage.comms,
                **fields_of(coverage, "missing_ranks", "ops", "complete_ops", "dropped"),
            },
            "findings": findings,
        }
    )


_SEAT = ("rank", "host", "pid")


def _stats(stats: CollectiveStats) -> dict[str, Any]:
    statistics = ("mean", "p05", "p50", "p95", "min", "max")
    return {
        **fields_of(stats, "comm_type", "collective"),
        "bytes": stats.size,
        "ops": stats.ops,
        **{f"busbw_{name}_gbs": getattr(stats, f"busbw_{name}") for name in statistics},
        **fields_of(stats, "transfer_p50_us", "wait_share"),
        "kernel_us": stats.total_us,
    }


def _wait(wait: RankWait) -> dict[str, Any]:
    return {
        **fields_of(wait.seat, *_SEAT),
        "caused_wait_us": wait.caused_us,
        "caused_wait_share": wait.share,
        **fields_of(wait, "lasting_share", "last_share", "own_lateness"),
        "kernel_time_share": wait.comm_share,
        **fields_of(wait, "ops", "late_ops"),
    }


def _link(link: LinkRatio) -> dict[str, Any]:
    names = ("comm", "name", "comm_type", "n_ranks", "hosts", "ratio", "peers", "ops")
    return {**fields_of(link, *names), "kernel_time_share": link.lost_share}


def _pair(pair: PairRatio) -> dict[str, Any]:
    seats = [fields_of(seat, *_SEAT) for seat in pair.seats]
    figures = fields_of(pair, "ratio", "peers", "ops")
    return {"link_type": pair.link_type, "ranks": seats, **figures, "kernel_time_share": pair.lost_share}


# --- What both texts have ---


def _head(found: JobAnalysis) -> str:
    span = format_seconds(max(0.0, (found.end_us - found.start_us) / 1e6))
    formats = ", ".join(plain(version, 20) for version in found.versions[:4]) or "unknown"
    return (
        f"{counted(found.records, 'record')} of {counted(found.groups, 'operation')} in "
        f"{counted(found.files, 'file')} of {counted(found.hosts, 'host')}, {span} from first to last dump, "
        f"format {formats}"
    )


def _remarks(found: JobAnalysis) -> Iterator[str]:
    coverage = found.coverage
    if found.skipped:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in found.lost.items())
        yield f"{counted(found.skipped, 'line')} skipped: {reasons}"
    yield from found.notes
    if coverage.missing_ranks:
        count = sum(coverage.missing_ranks.values())
        first = ", ".join(plain(comm, 20) for comm in list(coverage.missing_ranks)[:3])
        yield (
            f"{counted(count, 'rank')} of {counted(len(coverage.missing_ranks), 'communicator')} left no record "
            f"({first}{', …' if len(coverage.missing_ranks) > 3 else ''})"
        )
    if coverage.dropped:
        yield f"the plugin dropped {counted(coverage.dropped, 'record')}: shorten its dump interval"
    if coverage.ops and coverage.share < 1:
        known = f"{coverage.complete_ops:,} of {coverage.ops:,} operations have records of all ranks"
        why = (
            "" if coverage.missing_ranks else " (NCCL before 2.30 logs one operation per interval, then the last 1024)"
        )
        few = f"; with so few, slow ranks and links may be missed{why}"
        yield known + (few if coverage.share < _LEAST_COVERAGE else "")


def _verdict(found: JobAnalysis) -> list[str]:
    if found.findings:
        return [f"{finding.title}: {finding.sentence}" for finding in found.findings]
    if not found.coverage.complete_ops and not found.pairs:
        return ["No operation has records of all ranks, so slow ranks and links cannot be found"]
    undecided = [wait for wait in found.ranks if wait.own_comm_share > _NOTABLE_WAIT]
    if any(wait.own_lateness > _NOTABLE_LATENESS for wait in undecided):
        ranks = ", ".join(plain(wait.seat.label, 120) for wait in undecided[:_NAMED])
        share = format_share(sum(wait.own_comm_share for wait in undecided))
        return [
            f"No slow link found; not decided: waiting of {share} of the kernel time is caused by {ranks}"
            f"{', …' if len(undecided) > _NAMED else ''}, but none is late so much more than the others that it is "
            "certainly a slow rank"
        ]
    if any(wait.has_paused for wait in found.ranks[:1]):
        return ["No rank is late throughout the job (see the note about the longest waits), and no slow link found"]
    return ["No slow rank and no slow link found"]


def _size_rows(by: Sequence[CollectiveStats], ceiling: Ceiling | None) -> list[list[str]]:
    rows = []
    for stats in by:
        row = [
            stats.comm_type,
            plain(stats.collective, 24),
            binary_size(stats.size),
            f"{stats.ops:,}",
            f"{stats.busbw_p05:.1f}",
            f"{stats.busbw_p50:.1f}",
            f"{stats.busbw_p95:.1f}",
            "-" if stats.transfer_p50_us is None else f"{stats.transfer_p50_us:,.0f} us",
            "-" if stats.wait_share is None else format_share(stats.wait_share),
        ]
        if ceiling is not None:
            most = ceiling.of(stats)
            row.append("" if most is None else format_share(stats.busbw_p50 / most))
        rows.append(row)
    return rows


def _has_pairs(by: Sequence[CollectiveStats]) -> bool:
    return any(stats.collective in P2P for stats in by)


def _rank_rows(ranks: Sequence[RankWait]) -> list[list[str]]:
    return [
        [
            str(wait.seat.rank),
            one_line(wait.seat.host, 60),
            "" if wait.seat.pid is None else str(wait.seat.pid),
            counted(wait.ops, "op"),
            format_seconds(wait.caused_us / 1e6),
            format_share(wait.share),
            format_share(wait.own_lateness),
        ]
        for wait in ranks
    ]


def _link_rows(links: Sequence[LinkRatio]) -> list[list[str]]:
    return [
        [
            one_line(f"{link.comm} {link.name}", 60),
            link.comm_type,
            str(link.n_ranks),
            f"{link.ratio:.2f}x",
            str(link.peers),
        ]
        for link in links
    ]


def _pair_rows(pairs: Sequence[PairRatio]) -> list[list[str]]:
    return [
        [
            " and ".join(one_line(f"{seat.rank} on {seat.host}", 60) for seat in pair.seats),
            pair.link_type,
            f"{pair.ops:,}",
            f"{pair.ratio:.2f}x",
            str(pair.peers),
        ]
        for pair in pairs
    ]


def _proxy_rows(proxies: Sequence[ProxyTime]) -> list[list[str]]:
    rows = []
    for one in proxies:
        gpu, rest = one.waits["gpu_produce_us"] + one.waits["gpu_consume_us"], ("peer_credit_us", "wire_us", "flush_us")
        times = [format_seconds(us / 1e6) for us in (gpu, *(one.waits[name] for name in rest))]
        rows.append([str(one.rank), one_line(one.host, 60), str(one.peer), one.direction, f"{one.steps:,}", *times])
    return rows


class _Table(NamedTuple):
    """A table of both texts."""

    title: str
    """In Markdown."""
    head: Sequence[str]
    rows: list[list[str]]
    left: frozenset[int]
    """Columns that are flush left."""
    lead: str = ""
    """Stands before it."""
    notes: tuple[str, ...] = ()
    """Stand behind it in Markdown."""

    @property
    def right(self) -> frozenset[int]:
        return frozenset(range(len(self.head))) - self.left


def _tables(found: JobAnalysis, times: int = 1) -> Iterator[_Table]:
    """Tables of what there is besides bandwidths; of at most so many times the usual number of rows."""
    ranks, links = _SHOWN_RANKS * times, _SHOWN_LINKS * times
    if found.ranks:
        rows = _rank_rows(found.ranks[:ranks])
        yield _Table("Caused wait by rank", _RANK_HEAD, rows, frozenset({1}), notes=_OF_RANKS)
    if found.links:
        title = "Transfer time of communicators relative to their peers"
        yield _Table(title, _LINK_HEAD, _link_rows(found.links[:links]), frozenset({0, 1}))
    if found.pairs:
        title = "Fastest sends and receives of pairs relative to others"
        yield _Table(title, _PAIR_HEAD, _pair_rows(found.pairs[:links]), frozenset({0, 1}))
    if found.proxies:
        rows, lead = _proxy_rows(found.proxies[:links]), _proxy_sentence(found.proxies)
        yield _Table("Network threads", _PROXY_HEAD, rows, frozenset({1, 3}), lead)


def _proxy_sentence(proxies: Sequence[ProxyTime]) -> str:
    """Waits of the sends, all together: the receives of their peers are the same transfers."""
    sends = [one for one in proxies if one.direction == "send"]
    whole = sum(one.total_us for one in sends)
    if not whole:
        return ""
    names = {"gpu_produce_us": "their GPU", "peer_credit_us": "room at the peer", "wire_us": "the wire"}
    shares = [
        f"{format_share(sum(one.waits[name] for one in sends) / whole)} for {words}" for name, words in names.items()
    ]
    return f"Threads that send over the network waited {', '.join(shares[:-1])} and {shares[-1]}"


def _hosts(link: LinkRatio) -> str:
    names = ", ".join(plain(host, 80) for host in link.hosts[:_SHOWN_HOSTS])
    more = len(link.hosts) - _SHOWN_HOSTS
    return f"{names}, and {more} more" if more > 0 else names


def _accused_links(found: JobAnalysis) -> list[LinkRatio]:
    labels = {finding.identity.get("group") for finding in found.findings}
    return [link for link in found.links if link.label in labels]


# --- Plain text ---


def nccl_text(found: JobAnalysis, ceiling: Ceiling | None = None) -> str:
    """The summary for standard output."""
    lines = wrap(_head(found))
    if found.metadata:
        lines += wrap("job: " + ", ".join(f"{key} {one_line(value, 80)}" for key, value in found.metadata.items()))
    lines.append("")
    for sentence in _verdict(found):
        lines += wrap(one_line(sentence), "    ", "  ")
    for link in _accused_links(found):
        lines += wrap(f"hosts of {link.comm}: {_hosts(link)}", "    ")
    for finding in found.findings:
        for advice in finding.advice:
            lines += wrap(one_line(advice), "      ", "    - ")
    head = (*_SIZE_HEAD, *(["of ceiling"] if ceiling else []))
    lines += ["", *table([head, *_size_rows(found.by[:_SHOWN_SIZES], ceiling)], frozenset({0, 1}))]
    if len(found.by) > _SHOWN_SIZES:
        lines.append(f"… and {len(found.by) - _SHOWN_SIZES} more sizes")
    lines += wrap(_OF_PAIRS) if _has_pairs(found.by[:_SHOWN_SIZES]) else []
    for one in _tables(found):
        lines += ["", *([*wrap(one.lead), ""] if one.lead else []), *table([one.head, *one.rows], one.left)]
    remarks = [line for remark in _remarks(found) for line in wrap(remark, "    ", "  ! ")]
    return "\n".join([*lines, *(["", *remarks] if remarks else [])]) + "\n"


# --- Markdown ---


def nccl_markdown(found: JobAnalysis, pictures: Sequence[str] = (), ceiling: Ceiling | None = None) -> str:
    """The page `SUMMARY.md`."""
    lines = ["# NCCL collectives", "", inline(_head(found)) + ".", ""]
    lines += [f"- {inline(f'{key}: {value}')}" for key, value in found.metadata.items()]
    lines += ["## Diagnosis", ""]
    lines += [f"- {inline(sentence)}" for sentence in _verdict(found)]
    lines += [f"  - {inline(f'hosts of {link.comm}: {_hosts(link)}')}" for link in _accused_links(found)]
    lines += [f"  - {inline(advice)}" for finding in found.findings for advice in finding.advice]
    if remarks := list(_remarks(found)):
        lines += ["", "## Coverage", "", *(f"- {inline(remark)}" for remark in remarks)]
    head = (*_SIZE_HEAD, *(["of ceiling"] if ceiling else []))
    lines += ["", "## Bus bandwidth", ""]
    lines += markdown_table(head, _size_rows(found.by, ceiling), frozenset(range(2, len(head))))
    lines += ["", _OF_PAIRS] if _has_pairs(found.by) else []
    for one in _tables(found, _MORE):
        lines += ["", f"## {one.title}", "", *([one.lead, ""] if one.lead else [])]
        lines += markdown_table(one.head, one.rows, one.right)
        lines += ["", *one.notes] if one.notes else []
    if pictures:
        lines += ["", "## Plots", "", *(f"![{inline(name)}]({name})" for name in pictures)]
    return "\n".join(lines) + "\n"
