"""The paper's experiments as recipes: cells to run, and how their results are laid out."""
