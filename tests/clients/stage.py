"""One process that holds a whole scene: the gateway, a scripted provider, and one client after the other.

`python -m tests.clients.stage [--own-network]` says `{"ready": true}` when the gateway serves, then reads one case a
line on standard input (JSON, see `play`) and answers each with one line. It runs in a network namespace where it first
switches loopback on, so that neither a client nor the gateway can reach anything else. At the end of its input it ends
the gateway and exits with the gateway's code.

The drivers give every client a HOME, a folder to work in and an environment of its own: no key, no setting and no
history of the user takes part.
"""

from __future__ import annotations

import copy
import fcntl
import importlib
import json
import os
import socket
import struct
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.clients.installed import HARNESS
from tests.e2e.gateway import CLIENT_KEY, PROVIDER_KEY, Gateway
from tests.ports import free_port

Json = dict[str, Any]

BACKENDS: dict[str, Json] = {
    "chat": {"api": "openai"},
    "openai": {"api": "openai", "provider": "openai"},
    "deepseek": {"api": "openai", "provider": "deepseek"},
    "gemini": {"api": "gemini"},
    "anthropic": {"api": "anthropic"},
    "responses": {"api": "openai", "endpoint": "responses"},
    "openai-responses": {"api": "openai", "endpoint": "responses", "provider": "openai"},
    "down": {"api": "openai"},
}
"""`down` has a port of its own, where nothing listens."""
MODELS: dict[str, tuple[str, str]] = {
    "coder-on-chat": ("chat", "fake-model"),
    "claude-on-chat": ("chat", "fake-model"),
    "claude-on-reasoning": ("openai", "gpt-5"),
    "claude-on-deepseek": ("deepseek", "deepseek-reasoner"),
    "claude-on-gemini-2.5": ("gemini", "gemini-2.5-pro"),
    "claude-on-gemini-3": ("gemini", "gemini-3-pro-preview"),
    "claude-sonnet-4-5": ("gemini", "gemini-3-pro-preview"),
    "claude-on-anthropic": ("anthropic", "claude-native-1"),
    "claude-after-failover": ("gemini", "gemini-3-pro-preview"),
    "claude-on-responses": ("responses", "gpt-5.5"),
    "coder-on-responses": ("responses", "gpt-5.5"),
    "coder-on-openai": ("openai-responses", "gpt-5.5"),
    "gpt-5.5": ("chat", "fake-model"),
    "gpt-5.6-sol": ("chat", "fake-model"),
}
"""What a client asks for -> backend and model there. Claude Code asks otherwise under names that it knows (budgets of
thinking, no system message inside the conversation); OpenCode marks what to cache where the name holds "claude";
Codex has free-form tools for gpt-5.5, and code mode for later models."""
FIRST_ATTEMPTS = {"claude-after-failover": [("down", "nothing")]}
"""What is tried before that."""
_PATHS = {"openai": "/v1", "gemini": "/v1beta", "anthropic": "/v1", "responses": "/v1"}
_SCENARIOS = ("scenarios", "scenarios_responses", "scenarios_codex")
_MAX_OUTPUT = 8192


def switch_loopback_on() -> None:
    """What `ip link set lo up` does, which not every system has: SIOCSIFFLAGS with IFF_UP and IFF_RUNNING."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh", b"lo", 0x1 | 0x40))


class Stage:
    """The gateway in front of four ports, on which the scripted providers of the cases follow each other."""

    def __init__(self, folder: Path) -> None:
        self._ports = {kind: free_port() for kind in _PATHS}
        urls = {name: self._url(_kind(backend)) for name, backend in BACKENDS.items()}
        urls["down"] = f"http://127.0.0.1:{free_port()}/v1"
        self.gateway = Gateway({
            "admin": f"127.0.0.1:{free_port()}",
            "workers": 1,
            "backends": {name: {**backend, "key": PROVIDER_KEY, "url": urls[name]}
                         for name, backend in BACKENDS.items()},
            "models": [{"match": name, "attempts": _attempts(name)} for name in MODELS],
            "teams": {"clients": {"key": CLIENT_KEY}},
        }, folder)

    def _url(self, kind: str) -> str:
        return f"http://127.0.0.1:{self._ports[kind]}{_PATHS[kind]}"

    def play(self, client: str, program: str, api: str, model: str, scenario: str, seconds: float) -> Json:
        """Runs one client through one scenario of the harness.

        `why` names everything that is wrong: the scenario's own check (exit code, last text, the bytes of the files,
        markup in the text...) and each request that the strict provider refused. `unexpected` names tool results that
        the script waited for and that did not come. `posts` counts the requests at the provider.
        """
        for module in _SCENARIOS:
            importlib.import_module(module)
        spec = importlib.import_module("scenarios").ALL[scenario]
        kind = _kind(BACKENDS[MODELS[model][0]])
        if spec["upstream"] != kind:
            raise ValueError(f"{scenario} needs a provider of {spec['upstream']}, {model} has one of {kind}")
        drive = importlib.import_module(f"drive_{client}").drive
        which = {} if client in ("claude_code", "codex") else {"api": api}
        provider = _provider(kind)(copy.deepcopy(spec["scenario"]), None, self._ports[kind],
                                   **{**spec["opts"], "key": PROVIDER_KEY}).start()
        said = len(self.gateway.lines)
        began = time.monotonic()
        try:
            result = drive(self.gateway.base_url, CLIENT_KEY, model, timeout=seconds, binary=program,
                           env=spec.get("env"), work_files=spec.get("work_files"), **which, **spec.get("client_kw", {}))
            why = [str(complaint) for complaint in spec["check"](result, provider)]
            violations = provider.rec.violations()
            why += dict.fromkeys(f"refused upstream: {one['why']}" for one in violations if one["kind"] != "expect")
            unexpected = [str(one["why"]) for one in violations if one["kind"] == "expect"]
            posts = sum(item["method"] == "POST" for item in provider.rec.items)
        finally:
            provider.stop()
        return {"why": why, "unexpected": unexpected, "posts": posts, "seconds": round(time.monotonic() - began, 1),
                "files": sorted(result["files_written"]), "text": result["final_text"] or "",
                "complaints": result["stderr_tail"][-800:], "log": self.gateway.lines[said:][-20:]}


def _attempts(name: str) -> list[Json]:
    return [{"backend": backend, "model": model, "max_output_tokens": _MAX_OUTPUT}
            for backend, model in (*FIRST_ATTEMPTS.get(name, ()), MODELS[name])]


def _kind(backend: Json) -> str:
    """The name of the provider's API at the harness."""
    return "responses" if backend.get("endpoint") == "responses" else str(backend["api"])


def _provider(kind: str) -> Any:
    module, name = {"openai": ("fake_openai_upstream", "FakeOpenAI"), "gemini": ("fake_gemini_upstream", "FakeGemini"),
                    "anthropic": ("fake_anthropic", "FakeAnthropic"),
                    "responses": ("fake_responses_upstream", "FakeResponses")}[kind]
    return getattr(importlib.import_module(module), name)


def main() -> int:
    if "--own-network" in sys.argv:
        switch_loopback_on()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)                           # what anything prints must not come between the answers
    sys.path.insert(0, str(HARNESS))
    with tempfile.TemporaryDirectory(prefix="stage-") as folder:
        stage = Stage(Path(folder))
        print(json.dumps({"ready": True}), file=answers, flush=True)
        try:
            for line in sys.stdin:
                try:
                    answer = stage.play(**json.loads(line))
                except Exception as error:
                    answer = {"why": [f"the harness failed: {error!r}"], "unexpected": [], "posts": 0, "seconds": 0.0,
                              "files": [], "text": "", "complaints": "", "log": stage.gateway.lines[-20:]}
                print(json.dumps(answer), file=answers, flush=True)
        finally:
            code = stage.gateway.terminate()
    return code


if __name__ == "__main__":
    sys.exit(main())
