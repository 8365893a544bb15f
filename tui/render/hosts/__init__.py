"""Tables of GPUs, hosts and queues, whose columns are chosen by the width that there is."""

__all__: list[str] = []
