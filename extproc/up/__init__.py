"""Envoy and the workers as one program.

`run_up` runs everything in the foreground, `run_serve` the workers alone. `children` starts processes that die with
the parent, `workers` and `envoy` know those two kinds, `admin` is the admin port, `show` is what an operator sees,
`program` puts them in order.
"""

from __future__ import annotations

from extproc.up.program import run_serve, run_up

__all__ = ["run_serve", "run_up"]
