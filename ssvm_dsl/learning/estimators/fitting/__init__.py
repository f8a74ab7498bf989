"""The surroundings of a fit: the caller's request, warnings about data, latent rounds, streams and reports."""
