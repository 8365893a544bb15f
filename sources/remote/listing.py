"""The logs that a path or pattern names on a machine."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

from ..kinds import compression_of, is_log_name
from ..tree import holds_logs
from .files import Files
from .quoting import MAGIC, literal_base, pattern, quoted, regex


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be followed there."""

    path: str
    """Absolute; may be a pattern."""
    packed: bool = False
    """Compressed logs below folders count, too."""

    @property
    def literal(self) -> bool:
        """It names one file or folder."""
        return MAGIC.search(self.path) is None


async def list_logs(files: Files, wanted: Wanted) -> list[str]:
    """The logs that exist now, by absolute path; a literal name need not exist, folders stand for logs below.

    Raises RunnerError.
    """
    path = wanted.path.rstrip("/") or "/"
    if wanted.literal:
        found = await files.listed(quoted(path))
        is_file = found == [path] or (not found and not await _is_folder(files, path))
        return [path] if is_file else [name for name in found if _is_below(name, path, wanted.packed)]
    if "**" in path.split("/"):
        whole, bare = regex(path), not posixpath.basename(path).strip("*")
        found = await files.listed(pattern(literal_base(path)))
        return [name for name in found if whole.fullmatch(name) and (not bare or is_log_name(posixpath.basename(name)))]
    found = await files.listed(pattern(path))
    whole = regex(path)
    return [name for name in found if whole.fullmatch(name) or _is_below(name, "", wanted.packed)]


async def _is_folder(files: Files, path: str) -> bool:
    return (await files.runner.run(f"[ -d {quoted(path)} ]")).code == 0


def _is_below(name: str, root: str, packed: bool) -> bool:
    """Whether a file in a folder is a log by its name, in folders that may hold some."""
    *folders, last = name[len(root) :].strip("/").split("/")
    fits = is_log_name(last) and (packed or not compression_of(last))
    return fits and (not root or all(map(holds_logs, folders)))
