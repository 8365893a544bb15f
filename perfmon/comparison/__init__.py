"""Two runs compared: what changed beyond chance, and what it means."""
