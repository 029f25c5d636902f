"""One fault-injection suite through the real Envoy, with numbers: `python -m tests.fault` prints its tables.

    plan (what is asked, what goes wrong) -> load (clients, kills) -> gateway -> provider (checksums, faults)
                                              |                                    |
                                              +---> judge (each answer) <--- story (what is right)
    accounts: the provider's ledger against the workers' log, /metrics and the process that counts limits
"""
