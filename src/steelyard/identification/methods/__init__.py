"""The seven methods: one a file, each with a `build_*` to inspect and a `solve_*` that returns a Solution."""
