"""The panes of the screen: one widget each, and none knows another."""

__all__: list[str] = []
