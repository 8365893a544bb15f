"""The clocks of several logs aligned; clocks that were adjusted."""
