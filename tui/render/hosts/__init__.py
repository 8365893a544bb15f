"""Rows about GPUs, hosts and queues: tables whose columns are chosen by the room that there is."""
