"""What no log says: GPUs, hosts, queues, asked for at a pace, and told as the lines of a log.

Flat here is what all pollers share: `reading` (what is told), `poller` (the seams), `machines` (who is asked), `pacing`
(when), `log` (the line), `asked` and `registry` (which SPEC means which poller). A folder is one kind of thing that is
asked: `gpu`, `hosts`, `network`, `engines`, `ray`, `slurm`; `pages` reads any page of metrics, and is shared by these.
"""
