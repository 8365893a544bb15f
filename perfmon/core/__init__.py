"""Values and helpers that know nothing of the domain above them: model, text, units, statistics, configuration."""
