"""Scanner, store, clocks and rules put together: a session, the offline runner, examples of signatures."""
