"""Benchmarks: problems whose answers are known, and what is measured on them."""
