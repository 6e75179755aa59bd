"""Estimates: parameters with their uncertainty, base parameters, notes, summary and storage."""
