"""Clusters of three edges on top of the local polytope: their dual, its updates, and the search for cycles."""
