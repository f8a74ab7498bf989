"""What stands between whoever asks and a backend: one base, and a small file for each layer on it."""
