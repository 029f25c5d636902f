"""The built-in demo: a small scripted provider in OpenAI Chat Completions format, so that the gateway can be tried
without a key or a network.

`script` chooses the output, `responses` encodes it, `checks` refuses what the real API refuses, `server` speaks HTTP.
`extproc up` starts the demo as a process of its own (`extproc demo --listen HOST:PORT`). Nothing else in the package
imports it.
"""

from __future__ import annotations

from extproc.demo.server import run_demo

__all__ = ["run_demo"]
