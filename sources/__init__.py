"""Inputs: logs that are found, read, followed and scanned; recordings; HTTP and shells."""
