"""The layers between callers and a backend: one base, and a small file for each layer."""
