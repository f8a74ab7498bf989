"""Dynamic programming on chains and forests."""
