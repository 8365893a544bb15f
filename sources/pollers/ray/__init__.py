"""Ray clusters: metrics pages, and an attached driver."""
