"""Pages of metrics: fetched, parsed, and counters and histograms of them differenced; any page at all."""
