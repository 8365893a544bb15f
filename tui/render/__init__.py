"""Pure drawing: pictures and numbers in, rows of styled text out."""
