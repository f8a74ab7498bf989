"""The conformance kit for kinds of hard constraints: what they call broken, against the rows they give."""
