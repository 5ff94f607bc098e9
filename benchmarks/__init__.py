"""Benchmarks of divea. `python -m benchmarks` lists them; run it in the root of the repository."""
