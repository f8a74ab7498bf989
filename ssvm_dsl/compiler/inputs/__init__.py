"""Read X into checked arrays, with advice about arrays of the wrong shape."""
