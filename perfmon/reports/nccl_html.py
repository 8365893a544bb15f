"""The report of NCCL Inspector logs as one HTML file with interactive plots, which needs no network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfmon.nccl import JobAnalysis, decimal_size, important_sizes, points

from .nccl_summary import nccl_document

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_TEMPLATE = Path(__file__).with_name("nccl_page.html")
_PLACE = "/*DATA*/null"
_SIZES = 40
_POINTS = 400
_RANKS = 64
_LINKS = 64
_ROWS = 500


def nccl_html(connection: DuckDBPyConnection, found: JobAnalysis) -> str:
    """The whole page."""
    chosen = important_sizes(found.by, _SIZES)
    known = points(connection, [(stats.comm_type, stats.collective, stats.size) for stats in chosen], _POINTS)
    document: dict[str, Any] = nccl_document(found)
    document["by"] = document["by"][:_ROWS]
    document["ranks"] = [
        row | {"parts": [round(share, 4) for share in wait.shares]}
        for row, wait in zip(document["ranks"][:_RANKS], found.ranks[:_RANKS], strict=True)
    ]
    document["links"] = document["links"][:_LINKS]
    document["series"] = [
        {
            "comm_type": stats.comm_type,
            "collective": stats.collective,
            "bytes": stats.size,
            "size": decimal_size(stats.size),
            "points": [[sn, round(busbw, 3)] for sn, busbw in known.get(key, [])],
        }
        for stats in chosen
        if (key := (stats.comm_type, stats.collective, stats.size)) in known
    ]
    # Text of logs must not end the script: `<` is written as an escape, which JSON and JavaScript both read.
    data = json.dumps(document, ensure_ascii=True, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return _TEMPLATE.read_text(encoding="utf-8").replace(_PLACE, data, 1)
