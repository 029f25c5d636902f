"""The built-in demo: a small scripted provider in OpenAI Chat Completions format, so that the gateway can be tried
without a key or a network.

`script` decides what to answer, `checks` refuses what the real API refuses, `server` speaks HTTP. Started by
`extproc up` as a process of its own (`extproc demo --listen HOST:PORT`); nothing else in the project imports it.
"""

from __future__ import annotations

from extproc.demo.server import run_demo

__all__ = ["run_demo"]
