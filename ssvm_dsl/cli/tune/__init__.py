"""``ssvm tune``: parameters chosen by cross-validation."""
