"""Constants of the code that were measured: run these when a model or the hardware changes."""
