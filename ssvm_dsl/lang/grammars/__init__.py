"""Context-free grammars and the trees that they derive."""
