"""Prefixes that launchers put before a record; they may stack: `[trainer0]:`, `3: `, `(Actor pid=1) `, `svc  | `."""

from __future__ import annotations

PREFIX = {
    "torchrun": r"\[[A-Za-z_]*\d+\]:\s?",
    "srun": r"\s?\d{1,5}: ",
    "ray": r"\([A-Za-z_][\w.:<>-]*(?:\([^()]*\))? pid=\d+(?:, ip=[\d.a-fA-F:]+)?\)\s",
    "docker-compose": r"[A-Za-z][\w.-]*\s+\|\s",
    "container-time": r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?Z?\s(?:\|\s)?(?=\S*[\[({A-Z0-9])",
    "tagged-rank": r"\[(?:rank|RANK|Rank) ?\d+\]:?\s",
}
"""Name to regex. A container's own stamp is peeled only when another header follows (see HeaderReader)."""

PREFIXES = "|".join(f"(?:{regex})" for regex in PREFIX.values())
