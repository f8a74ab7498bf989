"""Blocks of ``bcfw`` that are single factors: steps on the marginals of each, for the relaxed risk."""
