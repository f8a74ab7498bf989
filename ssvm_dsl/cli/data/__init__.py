"""Files with examples and labels: one module for each format, and a table of them."""
