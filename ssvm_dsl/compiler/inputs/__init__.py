"""Read what users pass as X: checked arrays, and what to do about those of the wrong shape."""
