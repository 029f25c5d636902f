"""Ports for servers that a test starts a moment later.

Not those that the kernel gives out: between the look and the server's start one of them may become the near end of
some connection. Every process of a parallel run has a range of its own, below the kernel's.
"""

from __future__ import annotations

import itertools
import os
import re
import socket

_FIRST, _SIZE, _RANGES = 12_000, 2_000, 10

_worker = re.fullmatch(r"gw(\d+)", os.environ.get("PYTEST_XDIST_WORKER", ""))
_range = int(_worker[1]) % (_RANGES - 1) if _worker else _RANGES - 1
_numbers = itertools.count(os.getpid() * 37)


def free_port() -> int:
    """One that nobody listens on and that was not given out before."""
    for number in itertools.islice(_numbers, _SIZE):
        port = _FIRST + _range * _SIZE + number % _SIZE
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"no free port in the {_SIZE} of this process")
