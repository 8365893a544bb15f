"""Logs of NCCL Inspector: records of all ranks are aggregated, and show which rank or link others wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from .aggregate import PartialTables, available, connect, load_tables, merge, partial
    from .analysis import Job
    from .changes import JobFigures, NcclChange, NcclComparison, compare_jobs, figures_of
    from .files import InspectorFile, find_files, holds_records
    from .live import LiveJob
    from .model import (
        Ceiling,
        CollectiveStats,
        Coverage,
        JobAnalysis,
        LinkRatio,
        PairRatio,
        RankWait,
        Seat,
        ceiling,
        ceilings,
    )
    from .proxies import ProxyTime
    from .ray_engine import RayEngine
    from .sampling import important_sizes, points, values
    from .schema import P2P, RANK_BITS, SINGLE, binary_size, decimal_size
    from .slurm_jobs import job_folder, job_metadata
    from .summaries import file_part, size_folder, write_parquet, write_summaries

__all__ = [
    "P2P",
    "RANK_BITS",
    "SINGLE",
    "Ceiling",
    "CollectiveStats",
    "Coverage",
    "InspectorFile",
    "Job",
    "JobAnalysis",
    "JobFigures",
    "LinkRatio",
    "LiveJob",
    "NcclChange",
    "NcclComparison",
    "PairRatio",
    "PartialTables",
    "ProxyTime",
    "RankWait",
    "RayEngine",
    "Seat",
    "available",
    "binary_size",
    "ceiling",
    "ceilings",
    "compare_jobs",
    "connect",
    "decimal_size",
    "figures_of",
    "file_part",
    "find_files",
    "holds_records",
    "important_sizes",
    "job_folder",
    "job_metadata",
    "load_tables",
    "merge",
    "partial",
    "points",
    "size_folder",
    "values",
    "write_parquet",
    "write_summaries",
]

__getattr__ = lazy_face(__name__)
