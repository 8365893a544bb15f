"""Reports of a diagnosis: text, Markdown, JSON, tables, plots."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from .files import keep_what_was_read, save, write_analysis
    from .json_report import document, finding_document, json_object, json_text, printed
    from .nccl_comparison import nccl_comparison_document, nccl_comparison_markdown, nccl_comparison_text
    from .nccl_files import NcclFiles, WorkLog, prepare_folder, write_nccl_report
    from .nccl_summary import nccl_document, nccl_markdown, nccl_text
    from .profile_summary import profile_document, profile_markdown, profile_text
    from .report_page import run_page
    from .snapshot_page import cleaned, render_page

__getattr__ = lazy_face(__name__)
