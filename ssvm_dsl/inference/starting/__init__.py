"""A labelling that every search begins with, found by the host at once, and a bound that holds without any search."""
