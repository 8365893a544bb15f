"""perfmon: says where the time of an ML run goes, with proof."""

__version__ = "0.1.0"
