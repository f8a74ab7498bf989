"""Answers from dual messages: labellings, where the bound is attained, and bounds of single states."""
