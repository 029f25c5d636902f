"""`extproc up` with stand-ins for workers: `python -m tests.envoy.up_with_stand_in CONFIG PORT [WORKER COMMAND...]`.

`{}` in a worker command stands for the address.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from extproc.config import load_config
from extproc.gateway import run_up

if __name__ == "__main__":
    config = Path(sys.argv[1])
    routes = json.dumps({rule.match: rule.id for rule in load_config(config, os.environ).models})
    worker = sys.argv[3:] or [sys.executable, "-m", "tests.envoy.stand_in", "--listen", "{}", "--routes", routes]
    sys.exit(run_up(config, int(sys.argv[2]), command=lambda address: [part.replace("{}", address) for part in worker]))
