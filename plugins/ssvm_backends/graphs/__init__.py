"""What every solver for graphs starts from: flat factor graphs, what can be taken out of them, sessions."""
