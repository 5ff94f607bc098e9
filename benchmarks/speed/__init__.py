"""How fast steps are and how much memory they take, next to what they are compared with."""
