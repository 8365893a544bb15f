"""perfmon: shows where the time of an ML run goes, with proof.

The Python API, for notebooks and CI; docs/python.md has examples:

    import perfmon

    diagnosis = perfmon.analyze("logs/")
    print(diagnosis.summary)

`perfmon.emit` writes lines that perfmon reads, and needs none of the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable
    from os import PathLike

    from perfmon.diagnosis import Diagnosis as Diagnosis

__all__ = ["Diagnosis", "__version__", "analyze", "to_dict", "to_markdown"]


def __getattr__(name: str) -> Any:
    if name == "Diagnosis":
        from perfmon.diagnosis import Diagnosis

        return Diagnosis
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def analyze(
    paths: str | PathLike[str] | Iterable[str | PathLike[str]], *,
    since: str | None = None, until: str | None = None, config: str | PathLike[str] | None = None, jobs: int = 1,
) -> Diagnosis:  # fmt: skip
    """Read the complete logs of a run and diagnose them, as `perfmon analyze` does.

    `paths` are files, folders, globs or archives. `since` and `until` limit what is judged: `30m` (before the
    end of the logs), `14:05:00` or `2026-03-02 14:05`. `config` is a file of settings; None reads the user's own, if
    there is one. `jobs` is the number of processes that scan a large file; a script that uses more than one needs
    an `if __name__ == "__main__":` guard.

    Raises `perfmon.core.errors.PerfmonError` with one clear line where a path, a time or a data file is wrong. A log
    that is damaged or not understood is no error: `diagnosis.run.sources` states it for each log.
    """
    from os import fspath
    from pathlib import Path

    from perfmon.core import UsageError, load_config
    from perfmon.pipeline import Options, examine

    one = isinstance(paths, str) or hasattr(paths, "__fspath__")
    specs = tuple(fspath(path) for path in ([paths] if one else paths))  # type: ignore[arg-type, union-attr]
    if not specs:
        raise UsageError("no logs: give at least one path")
    options = Options(
        specs, since=since, until=until, jobs=jobs, config=load_config(None if config is None else Path(config))
    )
    return examine(options)[0]


def to_dict(diagnosis: Diagnosis) -> dict[str, Any]:
    """The document that `perfmon analyze --json` prints: stable keys, times in seconds, shares as fractions of 1."""
    from perfmon.reports import document

    return document(diagnosis)


def to_markdown(diagnosis: Diagnosis) -> str:
    """The report that `perfmon analyze -o FOLDER` writes as `SUMMARY.md`."""
    from perfmon.reports import render_page

    return render_page(diagnosis, resolved=True)
