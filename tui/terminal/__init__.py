"""Everything that touches the terminal below Textual."""
