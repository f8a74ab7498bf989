"""Relations between the items of one set: their kinds, the rows that a point violates, and what breaks them."""
