"""What a run with real clients needs, and which of it is here: the clients, the harness, a network of one's own.

Nothing is installed here (`install.sh` does that) and nothing is started but a probe of `unshare`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HARNESS = ROOT.parent / "shared" / "clients"
"""Drivers of the clients, scripted strict providers and scenarios; not part of this repository."""

_CACHE = Path.home() / ".cache" / "clients"
INSTALL = "tests/clients/install.sh"


@dataclass(frozen=True)
class Client:
    """A command line client as npm ships it."""

    title: str
    program: str
    package: str
    folder: str
    """The folder under the cache that it is installed in."""
    override: str
    """The environment variable that names another folder."""


CLIENTS: Mapping[str, Client] = {
    "claude_code": Client("Claude Code", "claude", "@anthropic-ai/claude-code", "npm", "CLIENTS_NPM"),
    "opencode": Client("OpenCode", "opencode", "opencode-ai", "npm", "CLIENTS_NPM"),
    "qwen_code": Client("Qwen Code", "qwen", "@qwen-code/qwen-code", "npm", "CLIENTS_NPM"),
    "codex": Client("Codex", "codex", "@openai/codex", "npm", "CLIENTS_NPM"),
    "kilo": Client("Kilo Code", "kilo", "@kilocode/cli", "kilo", "CLIENTS_KILO"),
}
"""By the name of the harness's driver."""


def _modules(client: Client) -> Path:
    return Path(os.environ.get(client.override) or _CACHE / client.folder) / "node_modules"


def node_folder() -> Path:
    """Where a Node of the clients' own may be; it need not exist."""
    return Path(os.environ.get("CLIENTS_NODE22") or _CACHE / "node22" / "bin")


def find(name: str) -> str | None:
    """The program of a client: in the folder of its own, else on PATH."""
    client = CLIENTS[name]
    installed = _modules(client) / ".bin" / client.program
    return str(installed) if installed.exists() else shutil.which(client.program)


def version(name: str) -> str:
    """The version that npm installed, "" when the program came from elsewhere."""
    try:
        manifest = json.loads((_modules(CLIENTS[name]) / CLIENTS[name].package / "package.json").read_text())
    except (OSError, ValueError):
        return ""
    return str(manifest.get("version", ""))


@cache
def own_network() -> tuple[str, ...] | None:
    """The words before a command that give it a network without anything in it; None where the system forbids that."""
    for words in (("unshare", "--net"), ("unshare", "--map-root-user", "--net")):
        try:
            if subprocess.run([*words, "true"], capture_output=True, timeout=10, check=False).returncode == 0:
                return words
        except (OSError, subprocess.TimeoutExpired):
            continue
    return None


def on_any_network() -> bool:
    """Whether the user allows clients to run on the machine's own network, where they can reach the world."""
    return os.environ.get("CLIENTS_ANY_NETWORK") == "1"


def why_nothing_runs() -> str | None:
    """The reason why no client can run at all."""
    if not HARNESS.is_dir():
        return f"no harness at {HARNESS}"
    if own_network() is None and not on_any_network():
        return "no network namespace allowed here; CLIENTS_ANY_NETWORK=1 runs the clients on the machine's own network"
    return None


def why_missing(name: str) -> str | None:
    """The reason why this client cannot run."""
    return None if find(name) else f"no {CLIENTS[name].title} here: {INSTALL} installs it (npm)"
