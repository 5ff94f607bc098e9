"""Runs: jobs, the executors that do them, and the directory that keeps what is done."""
