"""Hosts: processors, memory, pressure, disks, interfaces, and the run's processes."""
