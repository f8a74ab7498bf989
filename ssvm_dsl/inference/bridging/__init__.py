"""Constraints rewritten into tables by bridges: lowered programs, sessions on them, and which ways there are."""
