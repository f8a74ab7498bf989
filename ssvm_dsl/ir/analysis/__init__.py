"""What is computed from structure and scores: topology, treewidth, properties of tables, tolerances, local polytope."""
