"""Properties of structures and scores: topology, treewidth, properties of tables, tolerances, local polytope."""
