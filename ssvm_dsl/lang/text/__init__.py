"""How a declaration reads: printed, and in files."""
