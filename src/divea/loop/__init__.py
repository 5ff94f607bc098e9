"""The progressive loop: division, models and matching, repeated, with confidence at the end."""
