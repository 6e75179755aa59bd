"""Sections of the report: each computes what its template shows, and nothing of how it looks."""
