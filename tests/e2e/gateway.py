"""Runs the gateway as its users do: `extproc up --config F --port N` (or `serve` behind a hand-written Envoy).

A `Gateway` owns one process and everything it started; it reads the ready line, keeps the output for failure
messages, and ends the process with SIGTERM. It never signals a process that is not a descendant of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from extproc.gateway.envoy_admin import EnvoyAdmin
from tests.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
READY = re.compile(r"extproc: ready on (http://\S+)")
CLIENT_KEY = "sk-test"
PROVIDER_KEY = "sk-provider-0123456789abcdef"
START_SECONDS = 60.0
BODY_LIMIT = 24 * 1024 * 1024
"""Lower than the default, so that going past it costs little."""


def _text_dialect(match: str, model: str, **tools: Any) -> dict[str, Any]:
    return {"match": match, "attempts": [{"backend": "plain", "model": model, **({"tools": tools} if tools else {})}]}


TEXT_DIALECTS = [
    _text_dialect("prompted", "small/model", style="prompted", max=2),
    _text_dialect("strict", "qwen/qwen3-coder", arguments="strict"),
    _text_dialect("written/kimi", "small/model", style="kimi-k2"),
    _text_dialect("reads-glm", "claude-sonnet-4-5", read=["glm-4.6"]),
    _text_dialect("any/*", "{star}"),
]
"""Rules for models that write their calls as text."""


class GatewayError(RuntimeError):
    """The gateway did not do what it was told; the message ends with its output."""


def configuration(provider_url: str, **changes: Any) -> dict[str, Any]:
    """The configuration that most tests share: one provider under several profiles, one that is down, one team."""
    config: dict[str, Any] = {
        "admin": f"127.0.0.1:{free_port()}",
        "workers": 2,
        "limits": {"body": BODY_LIMIT},
        "backends": {
            "plain": {"api": "openai", "url": provider_url, "key": PROVIDER_KEY},
            "official": {"api": "openai", "url": provider_url, "key": PROVIDER_KEY, "provider": "openai"},
            "unheard-of": {"api": "openai", "url": provider_url, "key": PROVIDER_KEY, "provider": "a-new-provider"},
            "down": {"api": "openai", "url": f"http://127.0.0.1:{free_port()}/v1", "key": PROVIDER_KEY},
        },
        "models": [
            {"match": "claude-test", "attempts": [{"backend": "plain", "model": "scripted/model-1"}]},
            {"match": "claude-clamped", "attempts": [
                {"backend": "plain", "model": "scripted/model-1", "max_output_tokens": 100}]},
            {"match": "claude-official", "attempts": [{"backend": "official", "model": "gpt-5"}]},
            {"match": "claude-down", "attempts": [{"backend": "down", "model": "nothing"}]},
            {"match": "claude-new", "attempts": [{"backend": "unheard-of", "model": "scripted/model-1"}]},
            {"match": "glob/*", "list": ["glob/one", "glob/two"], "attempts": [{"backend": "plain", "model": "*"}]},
            *TEXT_DIALECTS,
        ],
        "teams": {"test": {"key": CLIENT_KEY}},
    }
    config.update(changes)
    return config


class Process:
    """A child process whose output is kept. `command` is run from the repository's root. `stdout`: a file descriptor
    that gets its standard output; then only standard error is kept."""

    def __init__(self, name: str, command: list[str], env: dict[str, str] | None = None,
                 stdout: int | None = None) -> None:
        self.name = name
        self.lines: list[str] = []
        self._new_line = threading.Condition()
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        clean = {key: value for key, value in os.environ.items() if not key.endswith("_API_KEY")}
        self.process = subprocess.Popen(
            command, cwd=ROOT, env={**clean, "PYTHONUNBUFFERED": "1", "PYTHONPATH": path, **(env or {})},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE if stdout is None else stdout,
            stderr=subprocess.STDOUT if stdout is None else subprocess.PIPE, text=True, errors="replace",
            start_new_session=True)
        self._output = self.process.stdout or self.process.stderr
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._output is not None
        for line in self._output:
            with self._new_line:
                self.lines.append(line.rstrip("\n"))
                self._new_line.notify_all()
        with self._new_line:
            self._new_line.notify_all()

    @property
    def output(self) -> str:
        """The last lines, for failure messages."""
        return "\n".join(line[:400] for line in self.lines[-40:])

    def said(self, text: str) -> bool:
        return any(text in line for line in self.lines)

    def wait_for_line(self, pattern: re.Pattern[str], timeout: float) -> re.Match[str]:
        def found() -> re.Match[str] | None:
            return next((match for line in self.lines if (match := pattern.search(line))), None)

        with self._new_line:
            self._new_line.wait_for(lambda: found() is not None or not self._reader.is_alive(), timeout)
        if match := found():
            return match
        raise GatewayError(f"{self.name} never said /{pattern.pattern}/ (exit code {self.process.poll()}):\n"
                           f"{self.output}")

    def terminate(self, timeout: float = 15) -> int:
        """SIGTERM, then the exit code. A process that does not end in time is killed and reported."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            for pid in descendants(self.process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.kill()
            raise GatewayError(f"{self.name} did not end within {timeout} s of SIGTERM:\n{self.output}") from None
        self._reader.join(5)
        return code


class Gateway(Process):
    """`extproc up` with a configuration of its own in `directory`."""

    def __init__(self, config: dict[str, Any], directory: Path, env: dict[str, str] | None = None) -> None:
        self.port = free_port()
        self.base_url = f"http://127.0.0.1:{self.port}"
        self.config_file = directory / "extproc.yaml"
        self.config_file.write_text(json.dumps(config, indent=1))
        self.admin = str(config.get("admin", ""))
        super().__init__("extproc up", [sys.executable, "-m", "extproc", "up", "--config", str(self.config_file),
                                        "--port", str(self.port)], env)
        try:
            url = self.wait_for_line(READY, START_SECONDS)[1]
        except GatewayError:
            with contextlib.suppress(GatewayError):
                self.terminate()
            raise
        if url != self.base_url:
            self.terminate()
            raise GatewayError(f"ready on {url}, not on {self.base_url}")

    def worker_pids(self) -> list[int]:
        return workers_of(self.process.pid)

    def envoy_pids(self) -> list[int]:
        return [pid for pid in descendants(self.process.pid) if "envoy" in program(pid)]

    def envoy_stat(self, name: str) -> int:
        """A number of Envoy's statistics, -1 where there is none of this name."""
        arguments = Path(f"/proc/{self.envoy_pids()[0]}/cmdline").read_text().split("\0")
        bootstrap = Path(arguments[arguments.index("-c") + 1])
        said = EnvoyAdmin(f"unix:{bootstrap.parent.parent}/admin.sock").ask("GET", f"/stats?filter=^{name}$")[1]
        return int(said.rpartition(": ")[2] or -1)


def workers_of(pid: int) -> list[int]:
    """The processor's workers: descendants that listen on a socket and are not Envoy."""
    return [one for one in descendants(pid) if "envoy" not in program(one) and listens(one, pid)]


# ------------------------------------------------------------------------------------------------------ /proc
def children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                found += [int(child) for child in (task / "children").read_text().split()]
    return found


def descendants(pid: int) -> list[int]:
    found: list[int] = []
    waiting = children(pid)
    while waiting:
        one = waiting.pop()
        found.append(one)
        waiting += children(one)
    return found


def program(pid: int) -> str:
    """The base name of the program that runs, "" when it is gone."""
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return ""


def ended(pid: int) -> bool:
    """Whether the process is gone or a zombie: its sockets are closed then."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def listens(pid: int, parent: int) -> bool:
    """Whether the process holds a listening TCP or Unix socket of its own: between fork and exec a child holds those of
    its parent."""
    return bool((sockets(pid) - sockets(parent)) & listening_inodes())


def sockets(pid: int) -> set[str]:
    """The inodes of the sockets that the process holds."""
    inodes: set[str] = set()
    with contextlib.suppress(OSError):
        for fd in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                target = os.readlink(fd)
                if target.startswith("socket:["):
                    inodes.add(target[8:-1])
    return inodes


SOCKET_TABLES = (("tcp", 3, "0A", 9), ("tcp6", 3, "0A", 9), ("unix", 3, "00010000", 6))
"""File under /proc/net, column of the state, its value for a listening socket, column of the inode."""


def listening_inodes() -> set[str]:
    found: set[str] = set()
    for name, state_column, state, inode_column in SOCKET_TABLES:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
                columns = line.split()
                if len(columns) > inode_column and columns[state_column] == state:
                    found.add(columns[inode_column])
    return found
