"""`python -m divea` is the `divea` command."""

from divea.cli.app import main

main()
