"""Envoy and the workers as one program.

`run_up` runs everything in the foreground, `run_serve` the workers alone: `program` checks what they need, `gateway`
and `serving` are one run of each, from start to drain. `children` starts processes that die with the parent; `workers`,
`envoy`, `limits` and `demo_provider` know one kind each. `signals` is what the operator asks for, `following` heeds it
and the file while requests run, `reload` puts a changed configuration in force (`delivery` writes Envoy's part of it),
`admin` is the admin port, `show` what an operator sees.
"""

from __future__ import annotations

from extproc.gateway.program import run_serve, run_up

__all__ = ["run_serve", "run_up"]
