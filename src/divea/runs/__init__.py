"""Runs: an alignment in a run directory that survives being killed, and what can be read from it."""
