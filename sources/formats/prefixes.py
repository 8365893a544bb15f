"""Prefixes that launchers put before a record; they may stack: `[trainer0]:`, `3: `, `(Actor pid=1) `, `svc  | `.

Names of pods end in their number, or in five of the letters that Kubernetes makes names of. Names of hosts have letters
and a digit (`node01: `): `deadline: ` before a time is no host.
"""

from __future__ import annotations

import re

_UNSURE = r"(?!\[?(?:\d{9}|\d\d:\d\d:\d\d\]))"
"""Behind spaces, or what looks like a host, a number or `[00:01:12]` is a figure of the message and tells no time."""

PREFIX = {
    "kubectl": r"\[pod/[\w.-]+/[\w.-]+\]\s",
    "stern": (
        r"[a-z][a-z0-9.-]*+(?:(?<=-\d)|(?<=-\d\d)|(?<=-\d\d\d)|(?<=-[b-df-hj-np-tv-xz2-9]{5})) "
        r"[a-z0-9][a-z0-9-]*+\s"
    ),
    "mpirun": r"\[(?:[\w.-]+@)?\d+,\d+\]<std(?:out|err|diag)>:\s?",
    "skypilot": r"\([\w.-]+(?:, (?:rank|pid|ip)=[\w.:]+)+\)\s",
    "raylet": r"\((?:raylet|gcs_server|autoscaler [+\dhms]++)\)\s",
    "torchrun": r"\[[A-Za-z_]*+\d+\]:\s?",
    "srun": r"\s{0,4}\d{1,5}: ",
    "ray, vLLM": r"\([A-Za-z_][\w.:<>-]*(?:\([^()]*\))?(?: rank=\d+)? pid=\d+(?:, ip=[\d.a-fA-F:]+)?\)\s",
    "docker-compose, torchx": r"[A-Za-z][\w.-]*+(?:\s+\||/\d{1,5})\s",
    "container-time": (
        r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?\s"
        r"(?:\|\s|std(?:out|err) [FP] )?(?=\S*[\[({A-Z0-9])"
    ),
    "kaggle": r"\d{1,6}\.\d{1,9}s\t\d+\t",
    "dmesg": r"\[\s{0,8}\d{1,10}\.\d{6}\]\s(?=\D)",
    "tagged-rank": r"\[(?:rank|RANK|Rank) ?\d+\]:?\s",
    "pdsh, clush, parallel --tag": (
        r"(?:(?=[A-Za-z][A-Za-z.-]*+\d)[\w.-]++|\d{1,3}(?:\.\d{1,3}){3})(?::\s|\t)" + _UNSURE
    ),
}
"""Name to regex. A container's own stamp is peeled only when another header follows (see HeaderReader)."""

NAMED = re.compile(
    r"\[(?:rank|RANK|Rank) ?(?P<rank>\d+)\]|\[(?:[\w.-]+@)?\d+,(?P<mpi_rank>\d+)\]<std|^\s{0,4}(?P<task>\d{1,5}): |"
    r"\[[A-Za-z_]+(?P<local_rank>\d+)\]:|\brank=(?P<named_rank>\d+)|\bpid=(?P<pid>\d+)|\bip=(?P<ip>[\d.a-fA-F:]+)|"
    r"\((?P<actor>[A-Za-z_][\w.:<>-]*)(?=[ (])|^(?P<host>[A-Za-z][\w.-]*\d[\w.-]*):\s|"
    r"\d(?P<engine>(?: [A-Z]{2}\d+)+)\]|\d\d:\d\d\S* (?P<unit_host>[A-Za-z0-9][\w.-]*) (?:kernel|[\w./@-]+\[\d+\]): "
)
"""What prefixes and headers name: the place that a failure is of. The first one of a kind counts, but for processes:
`(APIServer pid=1) (EngineCore pid=2)` is of the second."""
_PLACE_IN_SOURCE = (
    r"(?:\[?(?:[DIWEF] )?[\w./+-]{1,160}\.(?:py|pyx|cpp|hpp|cc|cu|cuh|h|go|rs|ts):\d+(?::\w{1,80})?\]?"
    r"|[\w.<>]{1,80}:[\w.<>]{1,80}:\d+(?= - ))"
)
_LEVELS = r"\[?\s{0,8}(?:TRACE|DEBUG|INFO|SUCCESS|WARN|WARNING|ERROR|CRITICAL|FATAL)\s{0,8}\]?(?=[\s:|\-\]])"
LEVEL = re.compile(
    r"(?:\s?std(?:out|err) [FP](?=\s))?"  # of a container's own stamp
    rf"[\s:|,\-]*(?:(?:[A-Za-z_][\w.]{{0,80}}+(?:\s?-\s|:\s))?{_LEVELS}(?::[A-Za-z_][\w.]{{0,80}}:(?=\S)|[\s:|\-]*))?"
    rf"(?:{_PLACE_IN_SOURCE}[\s:|\-]*)?"
)
"""Between a header and the message: the logger's name, level and place in the source."""
JOURNAL = re.compile(r"(?:[A-Za-z0-9][\w.-]*+ (?:[\w./@-]+\[\d+\]|kernel):\s)?(?:\[\s{0,8}\d{1,10}\.\d{6}\]\s)?")
"""Behind the clock of a journal: host, unit and the kernel's own clock."""
C10 = re.compile(r"\[[DIWEF](?:\d{3,4})? [\w.:/+ -]{1,200}\]")
"""The head of a line of torch's C++: `[Rank 0]` behind it is the rank within a process group."""

_STACKED = 8
PREFIXES = f"(?:{'|'.join(f'(?:{regex})' for regex in PREFIX.values())}){{0,{_STACKED}}}"
"""All that may stand before a record: as many as anybody stacks, that no line of thousands takes long."""

INDENTED = rf"(?:[ \t]{{1,16}}+(?=[\[(\dA-Z]){_UNSURE})?"
"""Some loggers indent whole records."""
