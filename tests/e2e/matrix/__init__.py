"""Every client API with every provider API, through the real Envoy and with the official SDKs: one table of tests.

`abilities` says what is tried, `clients` how an SDK says it, `backends` how a provider answers and what it was asked;
each speaks of the same things in the same words. `page` writes `docs/matrix.md` from the table.
"""
