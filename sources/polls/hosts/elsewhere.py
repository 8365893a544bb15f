"""What a host without `/proc` (macOS, BSD) says of itself, through psutil."""

from __future__ import annotations

from .procfs import CpuTimes, HostFacts, NicCounts

_MIB = float(1 << 20)


def read_psutil() -> HostFacts:
    """The facts of this machine."""
    import psutil

    facts = HostFacts()
    everywhere = psutil.cpu_times(percpu=False)
    for name, times in (("cpu", everywhere), *((f"cpu{at}", one) for at, one in enumerate(psutil.cpu_times(True)))):
        wait = float(getattr(times, "iowait", 0.0))
        total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
        facts.cpus[name] = CpuTimes(total - times.idle - wait, wait, total)
    memory, swap = psutil.virtual_memory(), psutil.swap_memory()
    facts.levels = {
        "load1": psutil.getloadavg()[0],
        "mem_used_mb": (memory.total - memory.available) / _MIB,
        "mem_total_mb": memory.total / _MIB,
        **({"swap_used_mb": swap.used / _MIB} if swap.total else {}),
    }
    for name, nic in psutil.net_io_counters(pernic=True).items():
        facts.nics[name] = NicCounts(nic.bytes_recv, nic.bytes_sent, nic.errin + nic.errout, nic.dropin + nic.dropout)
    facts.speeds = {name: state.speed / 8.0 for name, state in psutil.net_if_stats().items() if state.speed > 0}
    return facts
