"""Risks that give values and gradients, but no planes of labellings: log-losses, regression, sums of hinges."""
