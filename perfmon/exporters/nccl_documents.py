"""Documents of one job of NCCL Inspector logs for Elasticsearch: their fields, their ids, and the template.

An id contains everything that makes a document what it is (job, kind, communicator, collective, sequence number, rank),
so that no two documents have the same id, and a repeated upload replaces each document by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from perfmon._version import __version__
from perfmon.core import plain
from perfmon.nccl import RANK_BITS

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from perfmon.nccl import Job, JobAnalysis

Document = tuple[str, dict[str, Any]]
"""Id and fields."""
_TYPES = {
    "date": "@timestamp job.start job.end",
    "keyword": """kind job.key job.id job.name job.user job.cluster job.account job.partition job.formats perfmon
        comm.id comm.name comm.type comm.hosts collective host seat findings.id findings.severity""",
    "text": "findings.sentence",
    "long": """comm.ranks comm.nodes comm.peers bytes sn records ops rank peer pid last_rank transfer_us
        kernel_min_us first_dump_us last_dump_us job.files job.skipped job.hosts job.missing_ranks
        job.dropped""",
    "double": """busbw_gbs busbw_p05_gbs busbw_p50_gbs busbw_p95_gbs busbw_min_gbs busbw_max_gbs kernel_us
        kernel_mean_us wait_us wait_share transfer_p50_us caused_wait_us caused_wait_share last_share own_lateness
        kernel_time_share ratio job.complete_share""",
    "boolean": "complete",
}
FIELDS = {name: kind for kind, names in _TYPES.items() for name in names.split()}
"""Every field with its type in Elasticsearch."""
_LIMITS = {"keyword": {"ignore_above": 1024}}
KINDS = ("job", "size", "wait", "link", "rank", "operation")
"""Kinds of documents, the fewest first: an upload that is cut off has the results."""
_METADATA = {"JobName": "name", "User": "user", "Cluster": "cluster", "Account": "account", "Partition": "partition"}
"""Facts that Slurm knows of a job and does not change."""
_LONGEST_ID = 512
"""Bytes; Elasticsearch takes no longer ones."""
_LONGEST_TEXT = 300
_ROWS = 10_000
_DEFAULT_FOLDER = "nccl-inspector-"


def template(index: str) -> dict[str, Any]:
    """Index template: field types; what is not listed is kept, but not indexed."""
    types = {name: {"type": kind, **_LIMITS.get(kind, {})} for name, kind in FIELDS.items()}
    return {
        "index_patterns": [index],
        "priority": 100,
        "template": {"mappings": {"dynamic": False, "properties": types}},
        "_meta": {"description": "NCCL Inspector logs, uploaded by perfmon"},
    }


def document_id(*parts: str | int | None) -> str:
    """Id of these parts; different parts give different ids, whatever characters they contain."""
    made = "/".join("%" if part is None else quote(str(part), safe="", errors="surrogatepass") for part in parts)
    return made if len(made) <= _LONGEST_ID else f"{made[:200]}/{sha256(made.encode()).hexdigest()}"


@dataclass(frozen=True, slots=True)
class JobDocuments:
    """Source of the documents of an analyzed job."""

    job: Job
    found: JobAnalysis
    name: str
    """Number of the job, or the name of its folder."""
    with_operations: bool = True
    key: str = field(init=False)
    """Digest of the communicator that wrote first: the same for every upload of one job, and for no other job."""

    def __post_init__(self) -> None:
        row = self._query("SELECT id FROM members WHERE coll IS NOT NULL ORDER BY first_us, id LIMIT 1").fetchone()
        first = row[0] if row else ""
        object.__setattr__(self, "key", sha256(first.encode(errors="surrogatepass")).hexdigest()[:12])

    def count(self) -> int:
        """Number of documents."""
        rows = "(SELECT count(*) FROM members WHERE coll IS NOT NULL), (SELECT count(*) FROM ops)"
        ranks, operations = self._query(f"SELECT {rows}").fetchone() or (0, 0)
        found = self.found
        results = 1 + len(found.by) + len(found.ranks) + len(found.links)
        return results + int(ranks) + (int(operations) if self.with_operations else 0)

    def __iter__(self) -> Iterator[Document]:
        """All documents, in the order of `KINDS`."""
        yield self._document("job", (), self._summary())
        yield from self._results()
        yield from self._ranks()
        if self.with_operations:
            yield from self._operations()

    def _query(self, text: str) -> DuckDBPyConnection:
        return self.job.connection.execute(text)

    def _document(self, kind: str, parts: tuple[str | int | None, ...], values: Mapping[str, Any]) -> Document:
        fields = {"kind": kind, "@timestamp": self.found.end_us // 1000, **self._identity(), **values}
        return document_id(self.key, kind, *parts), {
            name: _clean(value) for name, value in fields.items() if _is(value)
        }

    def _identity(self) -> dict[str, Any]:
        known = self.found.metadata
        return {"job.key": self.key, "job.id": self.name} | {
            f"job.{name}": known[title] for title, name in _METADATA.items() if known.get(title)
        }

    def _summary(self) -> dict[str, Any]:
        found = self.found
        return {
            "perfmon": __version__,
            "job.start": found.start_us // 1000,
            "job.end": found.end_us // 1000,
            "job.files": found.files,
            "job.skipped": found.skipped,
            "job.hosts": found.hosts,
            "job.formats": list(found.versions),
            "job.missing_ranks": sum(found.coverage.missing_ranks.values()),
            "job.dropped": found.coverage.dropped,
            "job.complete_share": found.coverage.share,
            "records": found.records,
            "ops": found.groups,
            "findings.id": [finding.signature for finding in found.findings],
            "findings.severity": [finding.severity.value for finding in found.findings],
            "findings.sentence": [finding.sentence for finding in found.findings],
        }

    def _results(self) -> Iterator[Document]:
        for stats in self.found.by:
            values = {
                "comm.type": stats.comm_type,
                "collective": stats.collective,
                "bytes": stats.size,
                "ops": stats.ops,
                "records": stats.records,
                "busbw_gbs": stats.busbw_mean,
                "busbw_p05_gbs": stats.busbw_p05,
                "busbw_p50_gbs": stats.busbw_p50,
                "busbw_p95_gbs": stats.busbw_p95,
                "busbw_min_gbs": stats.busbw_min,
                "busbw_max_gbs": stats.busbw_max,
                "transfer_p50_us": stats.transfer_p50_us,
                "wait_share": stats.wait_share,
                "kernel_us": stats.total_us,
            }
            yield self._document("size", (stats.comm_type, stats.collective, stats.size), values)
        for wait in self.found.ranks:
            seat = wait.seat
            values = {
                "seat": seat.label,
                "rank": seat.rank,
                "host": seat.host,
                "pid": seat.pid,
                "ops": wait.ops,
                "caused_wait_us": wait.caused_us,
                "caused_wait_share": wait.share,
                "last_share": wait.last_share,
                "own_lateness": wait.own_lateness,
                "kernel_time_share": wait.comm_share,
            }
            yield self._document("wait", (seat.host, seat.pid, seat.slot, seat.rank), values)
        for link in self.found.links:
            values = {
                "comm.id": link.comm,
                "comm.name": link.name,
                "comm.type": link.comm_type,
                "comm.ranks": link.n_ranks,
                "comm.hosts": list(link.hosts),
                "comm.peers": link.peers,
                "ops": link.ops,
                "ratio": link.ratio,
                "kernel_time_share": link.lost_share,
            }
            yield self._document("link", (link.comm, link.comm_type, link.n_ranks), values)

    def _ranks(self) -> Iterator[Document]:
        """A document of each rank of each communicator, by collective and size; for Send and Recv, by peer, too."""
        rows = self._query(
            f"""
            SELECT id, comm_type, coll, bytes, n_ranks, nnodes, "rank", host, pid, peer, records,
                micro_bw / records / 1e6, exec_us / records, shortest >> {RANK_BITS}, first_us, last_us, name
            FROM members WHERE coll IS NOT NULL
            """  # noqa: S608 - a constant
        )
        names = (
            "comm.id", "comm.type", "collective", "bytes", "comm.ranks", "comm.nodes", "rank", "host", "pid", "peer",
            "records", "busbw_gbs", "kernel_mean_us", "kernel_min_us", "first_dump_us", "last_dump_us", "comm.name",
        )  # fmt: skip
        for row in _fetched(rows):
            values = dict(zip(names, row, strict=True))
            values["@timestamp"] = values["last_dump_us"] // 1000
            yield self._document("rank", row[:10], values)

    def _operations(self) -> Iterator[Document]:
        """A document of each operation; who came last, and the wait, only where all ranks recorded it."""
        rows = self._query(
            """
            SELECT id, comm_type, coll, sn, bytes, n_ranks, nnodes, records, busbw, transfer_us,
                exec_us / records, CASE WHEN is_complete THEN caused_us END, CASE WHEN is_complete THEN last_rank END,
                is_complete, first_us, last_us
            FROM ops
            """
        )
        names = (
            "comm.id", "comm.type", "collective", "sn", "bytes", "comm.ranks", "comm.nodes", "records", "busbw_gbs",
            "transfer_us", "kernel_mean_us", "wait_us", "last_rank", "complete", "first_dump_us",
            "last_dump_us",
        )  # fmt: skip
        for row in _fetched(rows):
            values = dict(zip(names, row, strict=True))
            values["@timestamp"] = values["first_dump_us"] // 1000
            yield self._document("operation", row[:5], values)


def job_name(paths: list[Path], jobid: str | None) -> str:
    """Number of a Slurm job, or else the name of the folder, without the start that the plugin gives it."""
    if jobid is not None:
        return jobid
    name = paths[0].resolve().name
    return name.removeprefix(_DEFAULT_FOLDER) or name


def _fetched(rows: DuckDBPyConnection) -> Iterator[tuple[Any, ...]]:
    for part in iter(partial(rows.fetchmany, _ROWS), []):
        yield from part


def _is(value: object) -> bool:
    """Return false for what JSON cannot hold, or what is not known."""
    return value is not None and not (isinstance(value, float) and not isfinite(value))


def _clean(value: Any) -> Any:
    """Text of logs without control characters, and of limited length."""
    if isinstance(value, str):
        return plain(value, _LONGEST_TEXT)
    return [_clean(part) for part in value] if isinstance(value, list) else value
