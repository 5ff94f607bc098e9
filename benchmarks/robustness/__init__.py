"""What happens to runs that are killed, to damaged files and to repeated runs."""
