"""Envoy and the workers as one program.

`run_up` runs everything in the foreground, `run_serve` the workers alone. `program` checks what they need; `gateway`
and `serving` are one run of each, from start to drain. `child_processes` starts processes that die with the parent;
`workers`, `envoy`, `ratelimit_process` and `demo_provider` know one kind each. `signals` turns signals into requests of
the operator, and `background` fulfils them. `config_file` notices a changed configuration, `reload` applies it, and
`envoy_files` writes Envoy's part of it. `admin` is the admin port, `console` the terminal output.
"""

from __future__ import annotations

from extproc.gateway.program import run_serve, run_up

__all__ = ["run_serve", "run_up"]
