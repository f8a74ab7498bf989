"""``ssvm explain``: a model, its size, and the verdict of every backend."""
