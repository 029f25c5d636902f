"""`python -m extproc`: the same as the command `extproc`."""

from __future__ import annotations

from extproc.cli import main

if __name__ == "__main__":
    main()
