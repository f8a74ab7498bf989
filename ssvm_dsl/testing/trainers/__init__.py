"""The conformance kit for trainers: what one claims, against a reference trainer and brute force."""
