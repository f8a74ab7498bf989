"""Hard knowledge about outputs: rules over states, logic and counts, structures, pointers."""
