"""What users fit: the scikit-learn estimators, their parameters, weights and saved files."""
