"""How good divisions, models and alignments are. Only the times depend on the machine's load."""
