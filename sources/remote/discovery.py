"""Discovery of runs on a machine: processes, the logs that they write, the ports that they listen on."""

from __future__ import annotations

import asyncio
import posixpath
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from perfmon.core import evidence_text

from ..http_client import Opener, ReplyError, Url, get, open_here
from ..shell import LocalRunner, RunnerError, pattern, quoted
from ..spec import is_log_name
from .files import Files, State, Wanted, list_logs

# --- What runs on a machine, which logs it writes, and where it listens: found without configuration, and why ---

KINDS = (
    ("prime-rl", re.compile(r"PRIME-RL::|\bprime_rl\b")),
    ("environment", re.compile(r"Verifiers::")),
    ("vLLM", re.compile(r"VLLM::|\bvllm (serve|bench)|\bvllm\.entrypoints")),
    ("SGLang", re.compile(r"\bsglang(::|\.launch_server| serve)")),
    ("Ray", re.compile(r"\braylet\b|\bgcs_server\b|^ray::")),
    ("torchrun", re.compile(r"\btorchrun\b|\btorch\.distributed\.(run|launch)\b")),
    ("orchestrator", re.compile(r"(^|[/ .])orchestrator([ .]|$)")),
    ("trainer", re.compile(r"(^|[/ .])(trainer|train\w*\.py|rl\.py|sft\.py|accelerate launch|deepspeed)([ .]|$)")),
    ("tee", re.compile(r"^(\S*/)?tee ")),
)
"""Kind of a process → a pattern of its command line, or title."""
ANY = (
    r"PRIME-RL::|prime_rl|Verifiers::|VLLM::|vllm|sglang|raylet|gcs_server|^ray::|torchrun|torch\.distributed|"
    r"orchestrator|trainer|train[A-Za-z0-9_]*\.py|rl\.py|sft\.py|accelerate|deepspeed|^([^ ]*/)?tee"
)
"""Pattern for the kernel's list of command lines: matches all that may be of a run, and more."""
_NO_RUN = re.compile(
    r"(\S*/)?(vim?|nvim|nano|emacs|less|more|tail|cat|grep|rg|ssh|scp|sftp|rsync|tmux\S*|screen|git|man|sshd\S*|perfmon)"
    r"( |:|$)|.*\bperfmon (ssh|watch|record|collect|snapshot|analyze|status)\b|.*-m perfmon\b"
)
_PLACES = ("outputs/logs/latest", "outputs/*/logs/latest", "outputs/*/*/logs/latest", "logs/latest", "outputs/logs",
           "outputs/*/logs", "outputs/*/logs/trainer", "logs")  # fmt: skip
_NO_LOGS = ("/dev/", "/proc/")
_DATA = re.compile(r"\.(jsonl|ndjson|txt)$", re.IGNORECASE)
"""A process writes its data into these as often as its log."""
_NAMES = ("*.log", "*.stdout")
_TOGETHER_S = 3600.0
"""Of logs in the usual places those are taken that were written to within so long before the newest."""
_OLDEST_S = 7 * 86400.0
_MOST, _MOST_PORTS = 200, 32
_METRICS_S = 2.0
_GROUP = 's=${s##*) }; s=${s#* }; s=${s#* }; echo "${s%%%% *}"'
"""Prints the process group of a line of `/proc/PID/stat`."""
_SCRIPT = (
    'for p in $(grep -lsE %s /proc/[0-9]*/cmdline | head -n 300); do d=${p%%/cmdline}; echo "P ${d#/proc/}"; '
    "tr '\\0\\n' '  ' <\"$p\"; echo; readlink \"$d/cwd\" || echo; "
    f'read -r s <"$d/stat"; {_GROUP}; ls -l "$d/fd"; done; '
    "echo N; cat /proc/net/tcp /proc/net/tcp6; echo T; date +%%s"
)
_GROUPS = (
    "for p in $(grep -lsE '^[0-9]+ [(].*[)] [A-Z] [0-9]+ (%s) ' /proc/[0-9]*/stat | head -n 300); do "
    f"tr '\\0\\n' '  ' <\"${{p%%/stat}}/cmdline\"; echo; read -r s <\"$p\"; {_GROUP}; done"
)
_PROGRAM = re.compile(r"(\S*/)?python[\d.]* (-\S+ )*(?!\S*(setup|manage)\.py)\S+\.py( |$)")
"""A program without a telling name: what it writes into a `tee` may be the log of a run."""
_FD = re.compile(r"^(\S+).* -> (.+)$")
_NUMBER = re.compile(r"[0-9]{1,9}")
_PORT = re.compile(r":([0-9A-F]{4})$")
_CLOCK = re.compile(r"[0-9]{9,11}\n?")
_SOCKET = re.compile(r"socket:\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class Process:
    """A process of a run."""

    pid: int
    kind: str
    command: str
    """Its command line or title, without credentials; display text."""
    folder: str
    """In which it runs; "" if that is not visible."""
    writes: tuple[str, ...] = ()
    """Files that it holds open for writing."""
    ports: tuple[int, ...] = ()
    """Ports on which it listens."""
    group: int = 0
    """Its process group; 0 if that is not visible."""
    metrics: tuple[int, ...] = ()
    """Ports at which `/metrics` is what Prometheus reads; known only after a request."""


@dataclass(frozen=True, slots=True)
class FoundLog:
    """A log that belongs to what runs, or ran."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class Discovery:
    """The processes and logs of a run on a machine."""

    processes: tuple[Process, ...] = ()
    logs: tuple[FoundLog, ...] = ()
    home: str = "/"

    @property
    def paths(self) -> list[str]:
        """Of the logs."""
        return [log.path for log in self.logs]


@dataclass(slots=True)
class _Parsed:
    processes: list[Process] = field(default_factory=list)
    sockets: dict[int, set[str]] = field(default_factory=dict)
    """Process → inodes of its sockets."""
    listening: dict[str, int] = field(default_factory=dict)
    """Inode → port."""
    now_s: float = 0.0


async def discover(files: Files) -> Discovery:
    """Look for processes of a run and for its logs: those that they hold open, and the usual places.

    Only what this user may see is found. Raises RunnerError.
    """
    parsed = _parsed((await files.runner.run(_SCRIPT % quoted(ANY), timeout_s=60.0)).text)
    processes = [
        replace(
            process, ports=tuple(sorted({parsed.listening[inode] for inode in sockets if inode in parsed.listening}))
        )
        for process in parsed.processes
        for sockets in [parsed.sockets.get(process.pid, set())]
    ]
    processes = await _without_other_tees(files, processes)
    reasons = _reasons(processes)
    folders = dict.fromkeys(["~", *(process.folder for process in processes if process.folder.startswith("/"))])
    places = await files.listed(" ".join(_places(folders)))
    for path in places:
        reasons.setdefault(path, "")
    states = await files.look([path for path in reasons if "\n" not in path])
    logs = _chosen(reasons, states, parsed.now_s)
    run = tuple(process for process in processes if process.kind != "tee")
    return Discovery(run, tuple(logs[:_MOST]), files.home)


async def _without_other_tees(files: Files, processes: list[Process]) -> list[Process]:
    """Leave out each `tee` into which neither a process of a run nor a program writes, but a build or a test."""
    groups = {process.group for process in processes if process.kind != "tee"}
    unknown = {process.group for process in processes if process.kind == "tee"} - groups - {0}
    if unknown:
        script = _GROUPS % "|".join(map(str, sorted(unknown)))
        lines = (await files.runner.run(script, timeout_s=60.0)).text.split("\n")
        groups |= {
            int(group)
            for command, group in zip(lines[::2], lines[1::2], strict=False)
            if group.isascii() and group.isdigit() and _PROGRAM.match(command) and not _NO_RUN.match(command)
        }
    return [process for process in processes if process.kind != "tee" or process.group in groups]


async def with_metrics(found: Discovery, opener: Opener) -> Discovery:
    """The same, with the ports that answer to `/metrics`; requests each at most once."""
    ports = sorted({port for process in found.processes for port in process.ports})[:_MOST_PORTS]
    answers = await asyncio.gather(*(_has_metrics(port, opener) for port in ports))
    good = {port for port, answer in zip(ports, answers, strict=True) if answer}
    processes = tuple(
        replace(process, metrics=tuple(port for port in process.ports if port in good)) for process in found.processes
    )
    return replace(found, processes=processes)


async def _has_metrics(port: int, opener: Opener) -> bool:
    try:
        reply = await get(opener, Url("http", "127.0.0.1", port, "/metrics"), timeout_s=_METRICS_S)
    except ReplyError:
        return False
    return reply.status == 200 and b"# TYPE " in reply.body


async def find_logs(files: Files) -> Sequence[str]:
    """The paths that `discover` finds: a `Finder`."""
    return (await discover(files)).paths


async def with_names(files: Files, found: Discovery, paths: Sequence[str]) -> Discovery:
    """The same, with the logs that these paths and patterns stand for in place of those that were found.

    Raises RunnerError.
    """
    logs: dict[str, FoundLog] = {}
    for path in paths:
        listed = await list_logs(files, Wanted(await files.expanded(path)))
        there = await files.look([name for name in listed if "\n" not in name])
        for name in there:
            logs.setdefault(name, FoundLog(name, "named with --log"))
        if not there:
            logs.setdefault(path, FoundLog(path, "named with --log: does not exist yet"))
    return replace(found, logs=tuple(logs.values()))


def describe(name: str, found: Discovery) -> list[str]:
    """Lines that list what was found, and why."""
    lines = [f"{name}: {_counted(len(found.processes), 'process', 'es')} of a run"]
    for process in found.processes:
        ports = f", listens at {', '.join(map(str, process.ports))}" if process.ports else ""
        ports += "" if process.folder else ", of another user: its files are not visible"
        ports += "".join(f", metrics: http://127.0.0.1:{port}/metrics" for port in process.metrics)
        lines.append(f"  {process.pid:>7}  {process.kind:<12}  {process.command[:90]}{ports}")
    lines.append(f"{name}: {_counted(len(found.logs), 'log')}")
    lines += [f"  {evidence_text(_short(log.path, found.home))}  ({log.why})" for log in found.logs]
    return lines


def process_kind(command: str) -> str | None:
    """Kind of the process with this command line; None if it does not belong to a run."""
    if _NO_RUN.match(command):
        return None
    return next((kind for kind, words in KINDS if words.search(command)), None)


def _parsed(text: str) -> _Parsed:
    parsed, (processes, _, rest) = _Parsed(), text.partition("\nN\n")
    if not _:
        processes, rest = "", text.removeprefix("N\n")
    sockets, _, clock = rest.partition("\nT\n")
    for chunk in re.split(r"(?m)^P (?=[0-9]{1,9}$)", processes)[1:]:
        _take_process(chunk.split("\n"), parsed)
    for line in sockets.split("\n"):
        words = line.split()
        if len(words) > 9 and words[3] == "0A" and (port := _PORT.search(words[1])):
            parsed.listening[words[9]] = int(port[1], 16)
    parsed.now_s = float(clock) if _CLOCK.fullmatch(clock) else 0.0
    return parsed


def _take_process(lines: list[str], parsed: _Parsed) -> None:
    pid, command, folder = int(lines[0]), lines[1].strip(), lines[2] if len(lines) > 2 else ""
    kind = process_kind(command)
    if kind is None:
        return
    group = int(lines[3]) if len(lines) > 3 and _NUMBER.fullmatch(lines[3]) else 0
    writes, sockets = [], set()
    for line in lines[4:]:
        match = _FD.match(line)
        if match is None:
            continue
        socket = _SOCKET.match(match[2])
        if socket:
            sockets.add(socket[1])
        elif match[2].startswith("/") and "w" in match[1][1:4] and not match[2].endswith(" (deleted)"):
            writes.append(match[2])
    parsed.sockets[pid] = sockets
    parsed.processes.append(
        Process(pid, kind, evidence_text(command), folder, tuple(dict.fromkeys(writes)), group=group)
    )


def _reasons(processes: Iterable[Process]) -> dict[str, str]:
    """Log → why it belongs to a run."""
    reasons: dict[str, str] = {}
    for process in processes:
        for path in process.writes:
            if is_log_name(posixpath.basename(path)) and not path.startswith(_NO_LOGS) and not _DATA.search(path):
                reasons.setdefault(path, f"held open by {process.kind} {process.pid}")
    return reasons


def _places(folders: Iterable[str]) -> Iterable[str]:
    for folder in folders:
        for place in _PLACES:
            for name in _NAMES:
                yield f"{pattern(folder)}/{place}/{name}"


def _chosen(reasons: dict[str, str], states: dict[str, State], now_s: float) -> list[FoundLog]:
    """Each file once; of those that no process holds open, the newest."""
    held = {states[path].identity for path, why in reasons.items() if why and path in states}
    newest = max((state.changed_s for state in states.values()), default=0.0)
    since = max(newest - _TOGETHER_S, now_s - _OLDEST_S)
    names: dict[tuple[int, int], str] = {}
    for path in sorted(states, key=lambda path: ("/latest/" not in path, path)):
        state = states[path]
        if (reasons[path] or state.identity in held or state.changed_s >= since) and state.size:
            names.setdefault(state.identity, path)
    by_file = {states[path].identity: why for path, why in reasons.items() if why and path in states}
    found = [
        FoundLog(
            path, by_file.get(identity) or f"written to {_ago(now_s - states[path].changed_s)} ago, a common location"
        )
        for identity, path in names.items()
    ]
    return sorted(found, key=lambda log: log.path)


def _ago(seconds: float) -> str:
    seconds = max(0.0, seconds)
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _short(path: str, home: str) -> str:
    return f"~{path[len(home) :]}" if home != "/" and path.startswith(f"{home}/") else path


def _counted(count: int, what: str, plural: str = "s") -> str:
    return f"{count or 'no'} {what}{'' if count == 1 else plural}"


# --- What runs on this machine, found in the same way as on others ---


def discover_here() -> Discovery:
    """Processes of a run and their logs; nothing where this machine has no `/proc` or no shell."""
    return asyncio.run(_discover())


async def _discover() -> Discovery:
    try:
        runner = await LocalRunner.open()
    except OSError:
        return Discovery()
    try:
        return await with_metrics(await discover(await Files.open(runner)), open_here)
    except RunnerError:
        return Discovery()
    finally:
        await runner.close()
