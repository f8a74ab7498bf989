"""``ssvm explain``: a model, its size, and what every backend says to it."""
