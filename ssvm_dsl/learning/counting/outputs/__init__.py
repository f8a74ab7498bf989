"""Output spaces that can be counted, and how the best output of each is found."""
