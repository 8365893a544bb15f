"""Widgets that panes and screens share: the base pane, lists, the palette, the prompt."""

__all__: list[str] = []
