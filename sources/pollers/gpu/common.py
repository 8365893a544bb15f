"""Which GPUs a run was given: CUDA_VISIBLE_DEVICES, and what Slurm says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

VARIABLES = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "SLURM_STEP_GPUS", "SLURM_JOB_GPUS")
"""The first that is set counts: what a process sees is narrower than its step, and that than its job."""
_RANGE = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?")
_NAMED = ("GPU-", "MIG-")


@dataclass(frozen=True, slots=True)
class Mine:
    """What was given: indices, or the beginnings of UUIDs."""

    indices: frozenset[str]
    uuids: tuple[str, ...]
    local: bool
    """Indices count the GPUs that the process can see; else those of the machine."""

    def word(self, index: str, uuid: str, parent: str = "", seen: int = 0) -> str:
        """`yes` or `no` for a GPU, or an instance `parent` of which is the GPU's UUID, where `seen` are there."""
        if not self.local and self.indices and seen == len(self.indices):
            return "yes"  # the others are fenced off, and these are counted anew
        whole = index.partition(":")[0]
        names = (uuid, parent, f"MIG-{parent}")
        named = any(name and name.startswith(wanted) for name in names for wanted in self.uuids)
        return "yes" if named or index in self.indices or whole in self.indices else "no"


def mine(environment: Mapping[str, str]) -> Mine | None:
    """What the environment says; None where nothing was given in particular."""
    for name in VARIABLES:
        if name in environment and (environment[name].strip() or not name.startswith("SLURM")):
            return _read(environment[name], local=not name.startswith("SLURM"))
    return None


def _read(text: str, *, local: bool) -> Mine:
    indices: set[str] = set()
    uuids: list[str] = []
    for part in re.split(r"[,\s]+", text.strip()):
        if part.startswith(_NAMED):
            uuids.append(_uuid(part))
        elif match := _RANGE.fullmatch(part):
            low, high = int(match[1]), int(match[2] or match[1])
            indices.update(map(str, range(low, high + 1)))
        else:
            break  # CUDA looks at nothing behind what it cannot read: `-1` hides all
    return Mine(frozenset(indices), tuple(uuids), local)


def _uuid(part: str) -> str:
    """`MIG-GPU-<uuid>/1/0`, as older drivers name an instance, is one of the GPU with that UUID."""
    return part.partition("/")[0]
