"""Tables: CSV, Parquet, NPZ, HDF5, and how their columns become Steelyard's."""
