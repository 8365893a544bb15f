"""A chaos run: real processes of perfmon watch logs to which everything happens that may happen to logs.

`python -m tests.chaos --seed 7 --minutes 30` runs it by hand; `--page` writes the figures into docs/reliability.md.
"""
