"""Actions and requests that concern more than one pane."""

__all__: list[str] = []
