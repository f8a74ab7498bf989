"""The conformance kit for trainers: compares their claims with a reference trainer and brute force."""
