"""Constraints of one robot: rows, cutting planes and linear matrix inequalities on its parameters."""
