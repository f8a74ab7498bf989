"""Rules: formulas over variables at positions, hard as attributes of a model, with a weight in a factor."""
