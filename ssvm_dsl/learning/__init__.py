"""Learning: the objective, the problem trainers see, the driver, certificates and the estimator."""
