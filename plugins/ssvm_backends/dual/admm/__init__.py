"""Steps of AD3 (alternating directions) on factors, and the marginals they keep."""
