"""What happens around a fit: what its caller gave, what is said of its data, latent rounds, streams and reports."""
