"""Runs that last minutes and look at what stays: `pytest -n 0 -m soak tests/soak`."""
