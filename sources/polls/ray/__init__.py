"""Ray clusters, from outside."""
