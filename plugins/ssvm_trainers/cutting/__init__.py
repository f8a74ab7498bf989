"""Cutting planes and bundles: a quadratic program over planes of the whole data."""
