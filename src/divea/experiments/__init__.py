"""The paper's experiments again: every table and figure as a list of runs, with our figures beside the
paper's.
"""
