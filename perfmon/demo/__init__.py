"""A simulated run of asynchronous RL that writes the logs of such a run, healthy or not."""
