"""Features that are computed: the user's functions, fitted ones, feature maps of kernels, features of spans."""
