"""Sections of the report: each gives what its template shows, and nothing of how it looks."""
