"""Counting-based training: outputs are counted, not searched (Gaertner and Vembu 2009)."""
