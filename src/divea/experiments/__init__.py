"""Repeats the paper's experiments: every table and figure as a list of runs, with our figures beside the
paper's.
"""
