"""The installation: the compiled search, libraries, what the user settled."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from perfmon.errors import PerfmonError
from perfmon.text import evidence_text

from .check import Finding, State, found, limited, missing

if TYPE_CHECKING:
    from perfmon.config import Config

_LIBRARIES = {
    "textual": "terminal UI",
    "asyncssh": "remote hosts",
    "bcrypt": "SSH keys with a passphrase",
    "asyncinotify": "file change notifications",
    "aiofiles": "asynchronous SSH connections",
    "psutil": "processes and hosts",
    "nvidia-ml-py": "NVIDIA GPUs",
    "prometheus-client": "Prometheus export",
    "zstandard": ".zst logs",
    "shtab": "shell completion",
}
"""Distributions, and what is not possible without each."""


def scanner(_: float) -> Finding:
    """Check that the compiled scanner is in use."""
    from perfmon.sources.accelerator import in_use, scanning

    if in_use():
        return found("compiled scanner")
    costs = "reading long logs takes about twice the CPU time; results are the same"
    if scanning is not None:
        return limited("disabled by PERFMON_NATIVE=0", costs, "unset PERFMON_NATIVE")
    mend = "install a C compiler, then pip install --force-reinstall --no-binary perfmon-tui perfmon-tui"
    return missing("not built, or not supported by this CPU (needs AVX2 or ARM)", costs, mend)


def libraries(_: float) -> Finding:
    """Check that all required libraries are installed."""
    lost = {name: use for name, use in _LIBRARIES.items() if _version(name) is None}
    if lost:
        said = "; ".join(f"{name}: {use}" for name, use in lost.items())
        return missing(f"not installed: {', '.join(lost)}", said, f"pip install {' '.join(lost)}")
    return found(", ".join(f"{name} {_version(name)}" for name in ("textual", "asyncssh", "zstandard")))


def plots(_: float) -> Finding:
    """Check that reports can have plots."""
    version = _version("matplotlib")
    if version is not None:
        return found(f"matplotlib {version}")
    return missing(
        "matplotlib is not installed", "analyze -o reports have no plots", "pip install 'perfmon-tui[plots]'"
    )


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def configuration(load: Callable[[], Config]) -> Callable[[float], Finding]:
    """A look at the configuration that `load` reads, and at all files that it names."""

    def look(_: float) -> Finding:
        problems = [evidence_text(str(problem)) for problem in _problems(load)]
        if not problems:
            return found(_told(load()))
        costs = "commands exit with code 2 until it is fixed"
        return Finding(
            State.BROKEN, "; ".join(problems), costs, "run perfmon rules check FILE for all errors in a file"
        )

    return look


def _problems(load: Callable[[], Config]) -> Iterator[PerfmonError]:
    from perfmon.rules.loader import load_bands, load_signatures
    from perfmon.sources.formats.loader import load_packs
    from perfmon.themes.loader import load_themes

    try:
        config = load()
    except PerfmonError as error:
        yield error
        return
    for read in (
        lambda: load_packs(config.format_dirs),
        lambda: load_signatures(config.signature_dirs),
        lambda: load_bands(config.band_files),
        lambda: load_themes(config.theme_dirs),
    ):
        try:
            read()
        except PerfmonError as error:
            yield error


def _told(config: Config) -> str:
    folders = (
        ("formats", config.format_dirs), ("signatures", config.signature_dirs), ("themes", config.theme_dirs),
    )  # fmt: skip
    own = [
        f"{count} {what}" for what, places in folders if (count := sum(len(list(one.glob("*.toml"))) for one in places))
    ]
    if config.band_files:
        own.append(f"{len(config.band_files)} threshold files")
    home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return f"valid; user files: {', '.join(own)}" if own else f"valid; no user files in {evidence_text(home)}/perfmon"
