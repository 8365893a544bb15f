"""Small real runs with faults to switch on: some processes, real connections, real files, real waiting.

One is reinforcement learning: inference server, orchestrator, trainer. The other is a pipeline: streamer, producer,
queue, consumer.

Not part of what is shipped: it is there to try perfmon on what truly happens. See `python -m lab --help`.
"""
