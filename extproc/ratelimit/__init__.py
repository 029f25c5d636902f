"""Limits of teams: how much each team has used, and whether a request may proceed.

    Envoy's filters -> service (RateLimitService over gRPC) -> counters (charges in, decisions out) -> refusal (headers)

`server` runs the service as one process of a gateway or alone (`extproc limits`). `fleet` writes the same limits as a
configuration of envoyproxy/ratelimit, which several gateways can share. `kinds` lists the kinds of limits.
"""
