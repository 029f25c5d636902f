"""Measurements of the gateway on loopback: `python -m tests.bench [--quick]`. Never part of the test run."""
