"""What actions and messages of the app do."""

__all__: list[str] = []
