"""Writes bootstrap.example.yaml from example.yaml, the same on every machine:

    python envoy/generate.py

`extproc envoy-config --config FILE` does it for your own configuration.
"""

from __future__ import annotations

from pathlib import Path

import yaml

from extproc.config import load_config
from extproc.envoy_config import static_bootstrap

HERE = Path(__file__).resolve().parent
TARGET = HERE / "bootstrap.example.yaml"
ENVIRONMENT = {"OPENROUTER_API_KEY": "k1", "GEMINI_API_KEY": "k4", "RED_KEY": "k2", "BLUE_KEY": "k3"}
"""What example.yaml asks for; placeholders take the values' place."""
HEADER = """\
# Generated from example.yaml by `python envoy/generate.py`; do not edit.
# Envoy on two hops: the edge listener chooses the route (select), each attempt goes through the internal listener of
# its backend (translate). Placeholders stand for all keys; the workers listen on the two Unix sockets.
"""


def example_bootstrap() -> str:
    """The text of bootstrap.example.yaml."""
    config = load_config(HERE / "example.yaml", ENVIRONMENT)
    sockets = [f"unix:/run/extproc/w{number}.sock" for number in (0, 1)]
    made = static_bootstrap(config, with_secrets=False, sockets=sockets, ca="/etc/ssl/certs/ca-certificates.crt")
    return HEADER + yaml.safe_dump(made, sort_keys=False, width=120)


if __name__ == "__main__":
    TARGET.write_text(example_bootstrap(), encoding="utf-8")
