"""What numba does not offer: bits of words, arrays without reference counts, copies, prefetching."""
