"""Methods that minimise the counting objective: by all examples at once, by one after the other, from streams."""
