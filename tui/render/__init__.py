"""Pure drawing: state and numbers in, rows of styled text out."""

__all__: list[str] = []
