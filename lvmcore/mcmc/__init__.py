"""Markov chain Monte Carlo: chains, diagnostics and moves."""
