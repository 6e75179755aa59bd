"""From motion to a small triangular factor."""
