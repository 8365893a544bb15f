"""The line format of NCCL Inspector as DuckDB reads it, and what its values mean.

All released formats (v4.0 to v4.4) have one set of names; unknown keys, such as those of verbose traces, are skipped.
"""

from __future__ import annotations

from math import log10

SINGLE, NVLINK, HCA, MIXED = "single-rank", "nvlink-only", "hca-only", "mixed"
COMM_TYPES = (SINGLE, NVLINK, HCA, MIXED)
"""Types of communicators by their number of ranks and of NVLink domains."""
P2P = ("Send", "Recv")
ROOTED = ("Broadcast", "Reduce", "Gather", "Scatter")
"""Collectives whose ranks do not all wait for each other: what a rank sends is buffered, and its kernel may end before
another one has come. So the shortest kernel is not that of the last one."""

COLUMNS = """{
    header: 'STRUCT(id VARCHAR, comm_name VARCHAR, "rank" BIGINT, n_ranks BIGINT, nnodes BIGINT)',
    metadata: 'STRUCT(inspector_output_format_version VARCHAR, dump_timestamp_us BIGINT, hostname VARCHAR, pid BIGINT)',
    coll_perf: 'STRUCT(coll VARCHAR, coll_sn UBIGINT, coll_msg_size_bytes UBIGINT, coll_exec_time_us BIGINT,
                coll_busbw_gbs DOUBLE)',
    p2p_perf: 'STRUCT(p2p VARCHAR, p2p_peer BIGINT, p2p_msg_size_bytes UBIGINT, p2p_exec_time_us BIGINT,
               p2p_busbw_gbs DOUBLE)',
    dump_stats: 'STRUCT(coll_dropped_total BIGINT, p2p_dropped_total BIGINT)',
    proxy_trace: 'JSON'}"""
"""Only the values that are used: each further one costs time for every line."""

COMM_TYPE = f"""CASE WHEN n_ranks = 1 THEN '{SINGLE}' WHEN nnodes = 1 THEN '{NVLINK}'
    WHEN n_ranks = nnodes THEN '{HCA}' ELSE '{MIXED}' END"""

_TRAFFIC = "CASE WHEN coll IN ('AllGather', 'ReduceScatter', 'AllGatherV') THEN bytes::DOUBLE * n_ranks ELSE bytes END"
_FACTOR = """CASE WHEN coll = 'AllReduce' THEN 2.0 * (n_ranks - 1) / n_ranks
    WHEN coll IN ('AllGather', 'ReduceScatter', 'AllGatherV') THEN (n_ranks - 1.0) / n_ranks
    WHEN coll IN ('Broadcast', 'Reduce', 'Send', 'Recv', 'SendRecv') THEN 1.0 ELSE 0.0 END"""
BUSBW = f"""CASE WHEN exec_us > 0 THEN ({_TRAFFIC}) / 1e3 / exec_us * ({_FACTOR}) ELSE 0.0 END"""
"""Bus bandwidth in GB/s from size and time, by the definition of the nccl-tests."""

_WRAPPED = "9223372036854775807"
BYTES = f"CASE WHEN size > {_WRAPPED} THEN 18446744073709551615 - size + 1 ELSE size END"
"""Size of a message. A type that the plugin does not know (uint8) has -1 bytes, so that the count wraps around."""
IS_WRAPPED = f"size > {_WRAPPED}"

RANK_BITS = 20
"""Bits of a rank in a packed (time, rank): the minimum of it is the shortest time with its rank, and ties go to the
lowest rank, in any order of the rows."""

_UNITS = ("B", "KB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB")


def decimal_size(size: int) -> str:
    """Size in decimal units as the names of NVIDIA's exporter have it, such as `8.39MB`."""
    if size == 0:
        return "0B"
    unit = int(log10(size) / 3)
    return f"{round(size * 10.0 ** (-3 * unit), 2):.2f}{_UNITS[unit]}"


def binary_size(size: int) -> str:
    """Size in the units in which buffers are allocated, such as `8 MiB`."""
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            return f"{value:.4g} {unit}"
        value /= 1024
    raise AssertionError("unreachable")
