"""Files: saved models and factor graphs.  Parsed with limits, never executed, written atomically."""
