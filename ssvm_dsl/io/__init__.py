"""Files: saved models.  Parsed with limits, never executed, written atomically."""
