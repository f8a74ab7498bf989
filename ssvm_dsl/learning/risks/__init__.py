"""Training problems: one file for each risk, all of them a value and a subgradient from oracle answers."""
