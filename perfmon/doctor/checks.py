"""Checks of this machine: the installation, the terminal, logs and GPUs."""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from perfmon.core import PerfmonError, evidence_text, plain
from perfmon.textgraphics import UNICODE, glyphs_for

if TYPE_CHECKING:
    from perfmon.core import Config
    from perfmon.sources.remote import Discovery


# --- The outcome of one look ---


class State(StrEnum):
    """State of a check; only BROKEN keeps perfmon from working."""

    FOUND = "found"
    LIMITED = "limited"
    """There, but something of it is missing."""
    MISSING = "missing"
    UNKNOWN = "unknown"
    """It did not answer in time."""
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of a check."""

    state: State
    detail: str
    """Details, or the reason of a problem."""
    impact: str = ""
    """Impact on the user; "" if there is none."""
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """A finding with what was looked at."""

    id: str
    group: str
    title: str
    finding: Finding


def found(detail: str) -> Finding:
    """Return the result of a check without problems."""
    return Finding(State.FOUND, detail)


def missing(detail: str, impact: str, fix: str = "") -> Finding:
    """Return the result of a check for what is not there."""
    return Finding(State.MISSING, detail, impact, fix)


def limited(detail: str, impact: str, fix: str = "") -> Finding:
    """Return the result of a check for what works in part."""
    return Finding(State.LIMITED, detail, impact, fix)


# --- Running other programs ---


class CommandError(Exception):
    """A program failed; its text is the reason, in one line."""


def program(*names: str) -> str | None:
    """The path of the first of these programs that there is."""
    return next((path for name in names if (path := shutil.which(name))), None)


def output_of(patience_s: float, *words: str) -> str:
    """Output of a program. Raises CommandError if it fails, TimeoutError if it takes longer: then it is killed."""
    try:
        child = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            errors="replace", start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise CommandError((error.strerror or "cannot start").lower()) from None
    with child:
        try:
            out, err = child.communicate(timeout=patience_s)
        except subprocess.TimeoutExpired:
            with suppress(OSError):
                os.killpg(child.pid, signal.SIGKILL)  # with all that it started
            raise TimeoutError from None
    if child.returncode:
        raise CommandError(first_line(err) or first_line(out) or f"exit code {child.returncode}")
    return out


def first_line(text: str) -> str:
    """The first line that is not blank, safe to show."""
    return evidence_text(next((line.strip() for line in text.splitlines() if line.strip()), ""))


# --- The installation: the compiled search, libraries, what the user settled ---

_LIBRARIES = {
    "textual": "terminal UI",
    "asyncssh": "remote hosts",
    "bcrypt": "SSH keys with a passphrase",
    "asyncinotify": "file change notifications",
    "aiofiles": "copies of remote logs",
    "psutil": "processes and hosts",
    "nvidia-ml-py": "NVIDIA GPUs",
    "prometheus-client": "Prometheus export",
    "zstandard": ".zst logs",
    "shtab": "shell completion",
}
"""Distributions, and what is not possible without each."""


def scanner(_: float) -> Finding:
    """Check that the compiled scanner is in use."""
    from perfmon.sources import in_use, scanning

    if in_use():
        return found("compiled scanner")
    impact = "reading long logs takes about twice the CPU time; results are the same"
    if scanning is not None:
        return limited("disabled by PERFMON_NATIVE=0", impact, "unset PERFMON_NATIVE")
    fix = "install a C compiler, then pip install --force-reinstall --no-binary perfmon-tui perfmon-tui"
    return missing("not built, or not supported by this CPU (needs AVX2 or ARM)", impact, fix)


def libraries(_: float) -> Finding:
    """Check that all required libraries are installed."""
    lost = {name: use for name, use in _LIBRARIES.items() if _version(name) is None}
    if lost:
        impact = "; ".join(f"{name}: {use}" for name, use in lost.items())
        return missing(f"not installed: {', '.join(lost)}", impact, f"pip install {' '.join(lost)}")
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
            return found(_user_files(load()))
        impact = "commands exit with code 2 until it is fixed"
        return Finding(
            State.BROKEN, "; ".join(problems), impact, "run perfmon rules check FILE for all errors in a file"
        )

    return look


def _problems(load: Callable[[], Config]) -> Iterator[PerfmonError]:
    from perfmon.rules import load_bands, load_signatures
    from perfmon.sources.formats import load_packs
    from perfmon.themes import load_themes

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


def _user_files(config: Config) -> str:
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


# --- The terminal: size, colours, characters, tmux ---

_LEAST, _GOOD = (60, 10), (120, 30)
_TRUE = ("truecolor", "24bit")


def terminal(_: float) -> Finding:
    """Check for a terminal, and its size."""
    size = next((size for stream in (2, 1, 0) if (size := _size(stream)) is not None), None)
    if size is None:
        fix = "run perfmon in a terminal; without one: perfmon snapshot, status, export"
        return missing("not a terminal", "the live monitor cannot open", fix)
    detail = f"{size[0]}x{size[1]}, {_name()}"
    if size[0] < _LEAST[0] or size[1] < _LEAST[1]:
        return limited(detail, "smaller than 60x10: the monitor is cut off", "enlarge the window")
    if size[0] < _GOOD[0] or size[1] < _GOOD[1]:
        return limited(detail, "some panes are hidden", "all panes fit from 120x30")
    if not sys.stdin.isatty():
        return limited(f"{detail}; stdin is not", "the live monitor receives no keys", "do not redirect stdin")
    return found(detail)


def _size(stream: int) -> tuple[int, int] | None:
    try:
        return tuple(os.get_terminal_size(stream))  # type: ignore[return-value]  # two numbers
    except OSError:
        return None


def _name() -> str:
    return f"TERM={plain(os.environ.get('TERM', ''), 40) or 'not set'}"


def colours(_: float) -> Finding:
    """Number of colours of the terminal."""
    kind, depth = os.environ.get("TERM", ""), os.environ.get("COLORTERM", "").lower()
    if os.environ.get("NO_COLOR"):
        return limited("none: NO_COLOR is set", "states are shown by symbols and words only", "unset NO_COLOR")
    if kind in ("", "dumb"):
        return missing(
            f"none: {_name()}", "states are shown by symbols and words only", "set TERM to the type of the terminal"
        )
    if depth in _TRUE:
        return found("16 million")
    fix = "export COLORTERM=truecolor if the terminal supports it (most do)"
    if "256" in kind:
        return limited("256", "themes use the nearest available colours", fix)
    return limited("16", "themes use the nearest available colours", fix)


def characters(_: float) -> Finding:
    """Character set of the monitor."""
    locale = next((f"{name}={value}" for name in ("LC_ALL", "LC_CTYPE", "LANG") if (value := os.environ.get(name))), "")
    if glyphs_for(os.environ) is UNICODE:
        return found(plain(locale, 60) or "assumed: no locale is set")
    return limited(f"not with {plain(locale, 60)}", "bars and symbols are drawn in ASCII", "export LC_ALL=C.UTF-8")


def tmux(patience_s: float) -> Finding:
    """Check for tmux, and if this is inside it."""
    path = program("tmux")
    if path is None:
        impact = "the monitor closes with its connection, and there is no status line (perfmon status --format tmux)"
        return missing("not installed", impact, "install tmux")
    try:
        version = first_line(output_of(patience_s, path, "-V"))
    except CommandError as error:
        return limited(f"does not work: {error}", "no status line (perfmon status --format tmux)")
    return found(f"{version}, {'inside tmux' if os.environ.get('TMUX') else 'not inside tmux'}")


# --- Following logs on this machine, and what runs here ---

_LIMITS = Path("/proc/sys/fs/inotify")
_FEW_WATCHES, _FEW_INSTANCES = 8192, 128
"""Former defaults of distributions: lower limits are quickly used up by editors and file managers."""
_POLLED = "perfmon checks the files every 0.25 s instead: slightly later, slightly more CPU"


def inotify(_: float) -> Finding:
    """Check inotify, and its limits."""
    try:
        from asyncinotify import Inotify

        Inotify().close()
    except (ImportError, AttributeError):
        return missing("not available on this system", _POLLED)
    except OSError as error:
        fix = "sudo sysctl fs.inotify.max_user_instances=1024"
        return missing(f"limit reached: {error.strerror}", _POLLED, fix)
    watches, instances = _limit("max_user_watches"), _limit("max_user_instances")
    detail = f"{watches or '?'} watches, {instances or '?'} instances per user"
    if (watches or _FEW_WATCHES) < _FEW_WATCHES or (instances or _FEW_INSTANCES) < _FEW_INSTANCES:
        fix = "sudo sysctl fs.inotify.max_user_watches=65536 fs.inotify.max_user_instances=1024"
        return limited(detail, f"limits may be reached: {_POLLED}", fix)
    return found(detail)


def _limit(name: str) -> int | None:
    try:
        return int((_LIMITS / name).read_text())
    except (OSError, ValueError):
        return None


def runs(patience_s: float) -> Finding:
    """Local runs, their logs, and ports that respond to /metrics."""
    discovered = asyncio.run(_discover(patience_s))
    if discovered is None:
        return missing(
            "this system has no /proc", "perfmon without arguments finds nothing: name a source (perfmon SOURCE...)"
        )
    if not discovered.processes and not discovered.logs:
        return missing(
            "no run was found", "perfmon without arguments finds nothing", "name a source: perfmon SOURCE..."
        )
    kinds = dict.fromkeys(process.kind for process in discovered.processes)
    ports = sorted({port for process in discovered.processes for port in process.metrics})
    detail = f"{', '.join(kinds) or 'no process'}; {len(discovered.logs)} logs"
    return found(f"{detail}; metrics at port {', '.join(map(str, ports))}" if ports else f"{detail}; no metrics")


async def _discover(patience_s: float) -> Discovery | None:
    from perfmon.sources import LocalRunner, RunnerError, open_here
    from perfmon.sources.remote import Files, discover, with_metrics

    try:
        runner = await LocalRunner.open()
    except OSError:
        return None
    try:
        async with asyncio.timeout(patience_s):
            return await with_metrics(await discover(await Files.open(runner)), open_here)
    except RunnerError as error:
        if "/proc" in str(error):
            return None
        raise OSError(plain(str(error), 200)) from None
    finally:
        await runner.close()


# --- GPUs: the libraries and programs by which they are queried ---

_LOST = frozenset({15, 16})
"""GPU is lost, reset required."""
_NO_GPUS = "no metrics of local NVIDIA GPUs (remote GPUs are polled over SSH)"


def nvml(_: float) -> Finding:
    """Check NVIDIA's library, without waking a sleeping GPU."""
    try:
        import pynvml  # type: ignore[import-untyped]
    except ImportError:
        return missing("nvidia-ml-py is not installed", _NO_GPUS, "pip install nvidia-ml-py")
    driver = ""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        fix = "install the NVIDIA driver if there is an NVIDIA GPU"
        return missing(evidence_text(str(error)).lower(), _NO_GPUS, fix)
    try:
        count = pynvml.nvmlDeviceGetCount()
        with suppress(pynvml.NVMLError):  # GPUs are queried without it, too
            driver = f", driver {evidence_text(str(pynvml.nvmlSystemGetDriverVersion()))}"
        lost = [str(index) for index in range(count) if _is_lost(pynvml, index)]
    except pynvml.NVMLError as error:
        return limited(evidence_text(str(error)).lower(), _NO_GPUS, "run nvidia-smi for details; a reboot may fix it")
    finally:
        pynvml.nvmlShutdown()
    detail = f"{count} {'GPU' if count == 1 else 'GPUs'}{driver}"
    if not count:
        return limited(detail, _NO_GPUS, "give this container a GPU (docker run --gpus all)")
    if lost:
        which = f"GPU {lost[0]} is lost" if len(lost) == 1 else f"GPUs {', '.join(lost[:-1])} and {lost[-1]} are lost"
        fix = "dmesg names the Xid; nvidia-smi --gpu-reset -i INDEX, or a reboot, may fix it"
        return limited(f"{detail}; {which}", "no metrics of lost GPUs; runs that use them fail", fix)
    return found(detail)


def _is_lost(nvml: ModuleType, index: int) -> bool:
    """Return true if a GPU has fallen off the bus or requires a reset; missing values alone do not count."""
    try:
        nvml.nvmlDeviceGetName(nvml.nvmlDeviceGetHandleByIndex(index))
    except nvml.NVMLError as error:
        return error.value in _LOST
    except UnicodeDecodeError:
        pass
    return False


def nvidia_smi(patience_s: float) -> Finding:
    """Check nvidia-smi, the fallback for the library."""
    path = program("nvidia-smi")
    impact = "NVIDIA GPUs can only be polled through the library"
    if path is None:
        return missing("not installed", impact, "it comes with the NVIDIA driver")
    try:
        names = output_of(patience_s, path, "--query-gpu=name", "--format=csv,noheader").strip().splitlines()
    except CommandError as error:
        return limited(f"fails: {error}", impact, "run nvidia-smi for details")
    if not names:
        return found("no GPU")
    return found(f"{len(names)} times {evidence_text(names[0])}" if len(names) > 1 else evidence_text(names[0]))


def amd(patience_s: float) -> Finding:
    """Check AMD's programs."""
    path = program("amd-smi", "rocm-smi")
    driver = Path("/dev/kfd").exists()
    impact = "no metrics of AMD GPUs"
    if path is None:
        fix = "install amd-smi or rocm-smi" if driver else "nothing to fix without an AMD GPU"
        return missing(f"neither amd-smi nor rocm-smi; {'driver found' if driver else 'no driver'}", impact, fix)
    name = os.path.basename(path)
    try:
        version = output_of(patience_s, path, "version" if name == "amd-smi" else "--version")
    except CommandError as error:
        return limited(f"{name} fails: {error}", impact, f"run {name} for details")
    if not driver:
        return limited(f"{first_line(version) or name}; no driver", impact, "load the amdgpu driver")
    return found(first_line(version) or name)
