"""The conformance kit for backends: what one claims, against brute force."""
