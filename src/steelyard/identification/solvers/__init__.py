"""Numerical solvers: least distances, lexicographic least squares, semidefinite programmes, sensitivities."""
