"""GPUs: the libraries and programs by which they can be asked."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from types import ModuleType

from perfmon.text import evidence_text

from .asking import Silent, asked, first_line, program
from .check import Finding, found, limited, missing

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
        mend = "install the NVIDIA driver if there is an NVIDIA GPU"
        return missing(evidence_text(str(error)).lower(), _NO_GPUS, mend)
    try:
        count = pynvml.nvmlDeviceGetCount()
        with suppress(pynvml.NVMLError):  # nobody needs to know it to be asked
            driver = f", driver {evidence_text(str(pynvml.nvmlSystemGetDriverVersion()))}"
        lost = [str(index) for index in range(count) if _is_lost(pynvml, index)]
    except pynvml.NVMLError as error:
        return limited(evidence_text(str(error)).lower(), _NO_GPUS, "run nvidia-smi for details; a reboot may fix it")
    finally:
        pynvml.nvmlShutdown()
    told = f"{count} {'GPU' if count == 1 else 'GPUs'}{driver}"
    if not count:
        return limited(told, _NO_GPUS, "give this container a GPU (docker run --gpus all)")
    if lost:
        which = f"GPU {lost[0]} is lost" if len(lost) == 1 else f"GPUs {', '.join(lost[:-1])} and {lost[-1]} are lost"
        mend = "dmesg names the Xid; nvidia-smi --gpu-reset -i INDEX, or a reboot, may fix it"
        return limited(f"{told}; {which}", "no metrics of lost GPUs; runs that use them fail", mend)
    return found(told)


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
    costs = "NVIDIA GPUs can only be polled through the library"
    if path is None:
        return missing("not installed", costs, "it comes with the NVIDIA driver")
    try:
        told = asked(patience_s, path, "--query-gpu=name", "--format=csv,noheader").strip().splitlines()
    except Silent as error:
        return limited(f"fails: {error}", costs, "run nvidia-smi for details")
    if not told:
        return found("no GPU")
    return found(f"{len(told)} times {evidence_text(told[0])}" if len(told) > 1 else evidence_text(told[0]))


def amd(patience_s: float) -> Finding:
    """Check AMD's programs."""
    path = program("amd-smi", "rocm-smi")
    driver = Path("/dev/kfd").exists()
    costs = "no metrics of AMD GPUs"
    if path is None:
        mend = "install amd-smi or rocm-smi" if driver else "nothing to fix without an AMD GPU"
        return missing(f"neither amd-smi nor rocm-smi; {'driver found' if driver else 'no driver'}", costs, mend)
    name = os.path.basename(path)
    try:
        told = asked(patience_s, path, "version" if name == "amd-smi" else "--version")
    except Silent as error:
        return limited(f"{name} fails: {error}", costs, f"run {name} for details")
    if not driver:
        return limited(f"{first_line(told) or name}; no driver", costs, "load the amdgpu driver")
    return found(first_line(told) or name)
