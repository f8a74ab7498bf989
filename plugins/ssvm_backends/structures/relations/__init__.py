"""Clusterings, orders and other relations: bounds by dual ascent on violated rows, then integer programs in rounds."""
