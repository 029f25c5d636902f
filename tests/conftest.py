"""Settings of the whole test run.

The plain run is reproducible: hypothesis draws the same examples every time, so a red run means that the code changed.
`--hypothesis-profile explore` draws new ones, and ten times as many.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("plain", derandomize=True, deadline=None, database=None,
                          suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("explore", deadline=None, max_examples=1000, print_blob=True,
                          suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("plain")
