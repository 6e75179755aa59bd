"""Sampling from the posterior of an estimate: whitening, Hamiltonian Monte Carlo, convergence, drawn models."""
