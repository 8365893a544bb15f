"""What no log says: GPUs, hosts, queues, asked for at a pace, and told as the lines of a log."""
