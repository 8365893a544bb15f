"""What was observed of a run, in bounded memory: series, spans, weight updates, latest readings."""
