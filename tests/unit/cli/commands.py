"""Runs the command `extproc` as its users do, and a configuration for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from extproc.cli import app

CONFIG = """
backends: {b: {api: openai, url: "https://x.example/v1", key: "${KEY}"}}
models: [{match: m, attempts: [{backend: b, model: x}]}]
"""


def run(*arguments: str | Path, stdin: bytes = b"", env: dict[str, str] | None = None,
        ) -> subprocess.CompletedProcess[bytes]:
    """Runs it to its end. `env`: variables beside those of this process."""
    return run_python("-m", "extproc", *map(str, arguments), stdin=stdin, env={"NO_COLOR": "1"} | (env or {}))


def invoke(*arguments: str | Path, stdin: bytes = b"", env: dict[str, str] | None = None,
           ) -> subprocess.CompletedProcess[bytes]:
    """Runs a command that only reads and prints in this process, which saves the start of another one."""
    command = [str(one) for one in arguments]
    done = CliRunner(env={"NO_COLOR": "1", **(env or {})}).invoke(app, command, input=stdin)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return subprocess.CompletedProcess(command, done.exit_code, done.stdout_bytes, done.stderr_bytes)


def run_python(*arguments: str, stdin: bytes = b"", env: dict[str, str] | None = None,
               ) -> subprocess.CompletedProcess[bytes]:
    """The same for this Python."""
    return subprocess.run([sys.executable, *arguments], input=stdin, capture_output=True, timeout=60, check=False,
                          env=os.environ | (env or {}))
