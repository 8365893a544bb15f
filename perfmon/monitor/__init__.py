"""The live worker thread: feeds in, states of the run out."""
