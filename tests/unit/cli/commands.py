"""Runs the command `extproc` as its users do, and a configuration for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CONFIG = """
backends: {b: {api: openai, url: "https://x.example/v1", key: "${KEY}"}}
models: [{match: m, attempts: [{backend: b, model: x}]}]
"""


def run(*arguments: str | Path, stdin: bytes = b"", env: dict[str, str] | None = None,
        ) -> subprocess.CompletedProcess[bytes]:
    """Runs it to its end. `env`: variables beside those of this process."""
    return run_python("-m", "extproc", *map(str, arguments), stdin=stdin, env={"NO_COLOR": "1"} | (env or {}))


def run_python(*arguments: str, stdin: bytes = b"", env: dict[str, str] | None = None,
               ) -> subprocess.CompletedProcess[bytes]:
    """The same for this Python."""
    return subprocess.run([sys.executable, *arguments], input=stdin, capture_output=True, timeout=60, check=False,
                          env=os.environ | (env or {}))
