"""The surrogate: an exact Gaussian process in closed form."""
