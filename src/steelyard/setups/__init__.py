"""Ready setup files for well-known humanoids, as package data."""
