"""Fast code for processors, each kernel with its reference in NumPy."""
