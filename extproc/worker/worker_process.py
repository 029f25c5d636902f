"""`python -m extproc.worker.worker_process --listen ADDRESS --accepted FILE`: one worker, as `up` and `serve` start it.

Not a command of `extproc`: a worker does not need the libraries of the command line, which would take a third of its
start-up time.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from extproc.worker.generations import Accepted
from extproc.worker.worker import run_worker


def main(arguments: list[str]) -> int:
    """Returns the exit code of `run_worker`."""
    parser = argparse.ArgumentParser(prog="worker_process")
    parser.add_argument("--listen", required=True)
    parser.add_argument("--accepted", required=True, type=Path)
    options = parser.parse_args(arguments)
    return run_worker(Accepted.read(options.accepted)[0].serving.config, options.listen, accepted=options.accepted)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
