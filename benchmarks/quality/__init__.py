"""How good divisions, models and alignments are. Of the figures, only times depend on the machine's load."""
