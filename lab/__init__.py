"""A small real run with faults to switch on: three processes, real connections, real files, real waiting.

Not part of what is shipped: it is there to try perfmon on what truly happens. See `python -m lab --help`.
"""
