"""The ids of signatures, as shells complete them: read only when somebody asks for a completion script."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from perfmon.config import load_config
from perfmon.errors import PerfmonError

_ID = re.compile(r'(?m)^id\s*=\s*["\']([a-z0-9][\w.-]*)["\']')
"""Other ids would mean something to a shell."""


def signature_ids() -> set[str]:
    """Those that are shipped, and those of the user's configuration."""
    import perfmon.rules

    folders: list[Path] = [Path(perfmon.rules.__path__[0]) / "signatures"]
    with suppress(PerfmonError):  # a wrong configuration is said by the commands
        folders += load_config(None).signature_dirs
    ids: set[str] = set()
    for file in (file for folder in folders for file in folder.glob("*.toml")):
        with suppress(OSError):
            ids.update(_ID.findall(file.read_text("utf-8", "replace"))[:1])
    return ids
