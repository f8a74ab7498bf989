"""A fitted model as one page of HTML."""
