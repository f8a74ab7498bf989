"""Read what users pass as Y, and return it: class names, unknown labels, pointers and segments as states."""
