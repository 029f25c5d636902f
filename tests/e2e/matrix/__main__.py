"""`python -m tests.e2e.matrix > docs/matrix.md`"""

from __future__ import annotations

import sys

from tests.e2e.matrix.page import render

sys.stdout.write(render())
