"""Hosts: processors, memory, pressure, disks, interfaces, and the run's processes."""

__all__: list[str] = []
