"""What runs a trainer: stopping rules, progress, certificates, checkpoints and interruptions."""
