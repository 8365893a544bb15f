"""Inputs: logs that are found, read, followed and scanned; recordings; HTTP and shells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from .batch import TRUNCATED, damaged, read_blocks, read_logs
    from .blocks import LineSplitter, TimedItem, in_use, newlines, scanning
    from .clock import SourceClock
    from .discovery import STDIN, LogFile, discover, display_name, distinct, log_file, runs_in, without_copies
    from .file_tree import LogGroup, grouped
    from .http_client import Opener, Reader, ReplyError, Url, Writer, get, open_here, parse_url
    from .parallel import BulkScanner, Cut, UnsplittableError, splittable, usable_cores
    from .replay import Player, Rewound, Timeline, timeline_of
    from .shell import LocalRunner, RunnerError
    from .spec import ARCHIVES, INSPECTOR, parse_spec
    from .thread_queue import ThreadQueue

__getattr__ = lazy_face(__name__)
