"""The alignment: the progressive loop over division, models and matching, and its result."""
