"""Local search and loopy belief propagation."""
