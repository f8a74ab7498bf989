"""How kernels are compiled: our ``njit``, the folder where compiled code is kept, and compiling ahead."""
