"""Is the verdict at the end of the road true? ``python -m benchmarks.fairness``."""
