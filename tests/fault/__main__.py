"""`python -m tests.fault [--requests N] [--seed S]`: runs the suite and prints its tables as markdown."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

from tests.fault.report import full

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Fault injection through the real Envoy.")
    parser.add_argument("--requests", type=int, default=2800)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    asked = parser.parse_args()
    print(f"seed {asked.seed}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as made:
        found = full(asked.seed, Path(made), asked.requests)
    print(found.markdown())
    for complaint in found.complaints:
        print(complaint, file=sys.stderr)
    sys.exit(bool(found.complaints))
