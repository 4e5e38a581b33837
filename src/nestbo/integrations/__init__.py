"""nestbo inside the tools that people have already, each with its own optional dependency."""
