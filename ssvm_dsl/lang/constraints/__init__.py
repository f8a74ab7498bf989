"""What is known of outputs: rules over states, logic and counts, structures, pointers."""
