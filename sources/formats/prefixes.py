"""Prefixes that launchers put before a record; they may stack: `[trainer0]:`, `3: `, `(Actor pid=1) `, `svc  | `.

Names of pods end in their number, or in five of the letters that Kubernetes makes names of. Names of hosts have letters
and a digit (`node01: `): `deadline: ` before a time is no host.
"""

from __future__ import annotations

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
    "torchrun": r"\[[A-Za-z_]*+\d+\]:\s?",
    "srun": r"\s{0,4}\d{1,5}: ",
    "ray": r"\([A-Za-z_][\w.:<>-]*(?:\([^()]*\))? pid=\d+(?:, ip=[\d.a-fA-F:]+)?\)\s",
    "docker-compose, torchx": r"[A-Za-z][\w.-]*+(?:\s+\||/\d{1,5})\s",
    "container-time": (
        r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?\s"
        r"(?:\|\s|std(?:out|err) [FP] )?(?=\S*[\[({A-Z0-9])"
    ),
    "tagged-rank": r"\[(?:rank|RANK|Rank) ?\d+\]:?\s",
    "pdsh, clush, parallel --tag": (
        r"(?:(?=[A-Za-z][A-Za-z.-]*+\d)[\w.-]++|\d{1,3}(?:\.\d{1,3}){3})(?::\s|\t)" + _UNSURE
    ),
}
"""Name to regex. A container's own stamp is peeled only when another header follows (see HeaderReader)."""

_STACKED = 8
PREFIXES = f"(?:{'|'.join(f'(?:{regex})' for regex in PREFIX.values())}){{0,{_STACKED}}}"
"""All that may stand before a record: as many as anybody stacks, that no line of thousands takes long."""

INDENTED = rf"(?:[ \t]{{1,16}}+(?=[\[(\dA-Z]){_UNSURE})?"
"""Some loggers indent whole records."""
