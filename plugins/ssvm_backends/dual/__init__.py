"""Message passing on the dual of the local-polytope relaxation."""
