"""Executors: who does the jobs of a run, from this very process to a cluster."""
