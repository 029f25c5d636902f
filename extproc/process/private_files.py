"""Files that only this user may read, replaced atomically: for configuration of Envoy and workers."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Replaces the file atomically. Only this user can read it."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")  # mkstemp makes it 0600
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(temporary, path)
