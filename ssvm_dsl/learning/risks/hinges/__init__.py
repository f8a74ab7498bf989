"""Risks that are maxima over labellings, known by planes: margin and slack rescaling, and what is built on them."""
