"""Hangs of distributed jobs: the rank that is behind, from flight-recorder dumps, watchdog lines and NCCL RAS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from .command import read_folder, report_of, run
    from .dossier import LogLine, last_lines, main_frames, process_stacks
    from .dump_files import find_dumps, is_dump_head, is_dump_name, read_dumps
    from .lines import evidence_of_lines, merge
    from .model import Evidence, GroupKey, Operation, RankState, Status, build
    from .ras import RISKY, RasReport, ask, judge_ras, parse, parse_ras, parse_target, query
    from .render import HangReport
    from .search import REMOTE_PREFIXES, Found, HangSearch, Limits, Places, usual_places
    from .verdict import Answer, Cause, Kind, Verdict, judge
    from .words import brief, next_steps, rank_words, summary

__getattr__ = lazy_face(__name__)
