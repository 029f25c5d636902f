"""Limits of teams: how much was used, and whether a request may go on.

    Envoy's filters -> service (RateLimitService, gRPC) -> counters (numbers in, decisions out) -> refusal (its words)

`process` runs the service as the one process of a gateway, or alone (`extproc limits`); `fleet` writes the same limits
as a configuration of envoyproxy/ratelimit, which many gateways can share. `kinds` says what there is to limit.
"""
