"""Ray clusters: metrics pages, and an attached driver."""

__all__: list[str] = []
