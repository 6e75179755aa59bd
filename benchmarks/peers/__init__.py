"""Scripts that run peers in environments of their own."""
