"""From users' inputs to rows of features, and what is learnt on the way."""
