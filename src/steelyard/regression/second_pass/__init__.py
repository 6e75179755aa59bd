"""Second passes over a motion at given parameters: robust weights, instruments, correlated noise, noise levels."""
