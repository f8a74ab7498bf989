"""Integer and linear programs over the local polytope."""
