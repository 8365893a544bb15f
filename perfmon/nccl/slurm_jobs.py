"""Log folder of a Slurm job from an INI file, and what Slurm knows of the job."""

from __future__ import annotations

import re
import subprocess
from configparser import ConfigParser
from configparser import Error as IniError
from pathlib import Path
from shutil import which

from perfmon.core import InputError, UsageError

DEFAULT_CONFIG = "perf_summary_exporter_config.ini"
"""The name under which NVIDIA's exporter looks for its configuration."""
_JOB = re.compile(r"[0-9]+(?:[_+][0-9]+)?")
_TIMEOUT_S = 10
_FIELDS = ("JobName", "User", "Account", "Partition", "NNodes", "NodeList", "State", "Start", "Elapsed", "Cluster")


def job_folder(job: str, config: Path | None) -> Path:
    """Return `{default_log_root}/{jobid}`. Raises UsageError or InputError with what is missing."""
    if not _JOB.fullmatch(job):
        raise UsageError(f"--jobid {job[:80]}: expected the number of a Slurm job, such as 12345")
    file = config or Path(DEFAULT_CONFIG)
    if not file.is_file():
        raise InputError(
            f"{file}: not found (--config FILE with [paths] default_log_root = FOLDER, or give the folder)"
        )
    parser = ConfigParser(interpolation=None)
    try:
        parser.read_string(file.read_text(encoding="utf-8"), str(file))
    except (IniError, OSError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{file}: cannot be read: {reason}") from None
    root = parser.get("paths", "default_log_root", fallback="").strip()
    if not root:
        raise InputError(f"{file}: [paths] default_log_root is missing (expected the folder of the logs of all jobs)")
    folder = Path(root.replace("{jobid}", job)).expanduser()
    return folder if "{jobid}" in root else folder / job


def job_metadata(job: str) -> dict[str, str]:
    """Fields of a job from `sacct`, or else `scontrol`; {} where there is no Slurm, or no such job."""
    if which("sacct"):
        text = _output(["sacct", "-X", "-n", "-P", "-j", job, f"--format={','.join(_FIELDS)}"])
        line = next((line for line in text.splitlines() if line.count("|") == len(_FIELDS) - 1), "")
        if line:
            return {name: value for name, value in zip(_FIELDS, line.split("|"), strict=True) if value}
    if which("scontrol"):
        text = _output(["scontrol", "show", "job", job])
        found = dict(re.findall(r"(\w+)=(\S+)", text))
        if (name := re.search(r"^JobId=\S+ .*?\bJobName=(.+)", text)) is not None:  # the rest of the line
            found["JobName"] = name[1].strip()
        names = {"JobName": "JobName", "UserId": "User", "Partition": "Partition", "NumNodes": "NNodes",
                 "NodeList": "NodeList", "JobState": "State", "StartTime": "Start", "RunTime": "Elapsed"}  # fmt: skip
        return {ours: found[theirs] for theirs, ours in names.items() if found.get(theirs)}
    return {}


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
