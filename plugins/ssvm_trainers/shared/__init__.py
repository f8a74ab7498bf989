"""What trainers of several families share: arrays for kernels, products with planes, oracle calls, lower bounds."""
