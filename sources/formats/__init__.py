"""Format packs: what real systems print, as data (`*.toml`), and the code that loads and compiles it."""
