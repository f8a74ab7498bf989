"""Methods that minimise the counting objective: in closed form, in batches, online, from streams."""
