"""The conformance kit for backends: compares their claims with brute force."""
