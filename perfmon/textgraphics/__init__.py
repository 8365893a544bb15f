"""Numbers as characters, for the screen and for pages: sparklines, bars, spans, axes, short numbers."""
