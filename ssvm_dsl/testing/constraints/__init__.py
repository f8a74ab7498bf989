"""The conformance kit for kinds of hard constraints: compares ``violated`` with the linear rows of the kind."""
