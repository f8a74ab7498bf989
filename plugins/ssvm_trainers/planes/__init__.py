"""Block-coordinate Frank-Wolfe: one or several cutting planes for each example."""
