"""What is compared, each started on its own: the gateway on either transport, its worker behind one hop, its Envoy with
a worker that only hands on, a plain Envoy, LiteLLM where it is installed. All listen on loopback and end with their
contexts."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from extproc.config import load_config
from extproc.envoy_config import static_bootstrap
from tests.bench.load import KEY, Side
from tests.bench.plain_envoy import PlainEnvoy, binary
from tests.e2e.gateway import Gateway, GatewayError, Process, descendants
from tests.e2e.hand_written import BACKEND, adapted, running
from tests.ports import free_port


@dataclass
class Running:
    """A side and the processes whose cost counts."""

    side: Side
    processor: list[int]
    envoy: list[int]


@contextmanager
def provider() -> Iterator[int]:
    """The provider's port."""
    process = Process("provider", [sys.executable, "-m", "tests.bench.provider"])
    try:
        yield int(process.wait_for_line(re.compile(r"port (\d+)"), 20)[1])
    finally:
        process.process.terminate()
        process.process.wait(10)


def _configuration(provider_port: int, *, passing: bool = False, endpoint: str = "auto") -> dict[str, object]:
    """One worker, one team, every model to one backend."""
    backend = {"api": "openai", "url": f"http://127.0.0.1:{provider_port}/v1", "key": "none", "endpoint": endpoint}
    return {"admin": f"127.0.0.1:{free_port()}", "workers": 1,
            "backends": {BACKEND: {**backend, **({"provider": "openai"} if passing else {})}},
            "models": [{"match": "*", "attempts": [{"backend": BACKEND, "model": "*"}]}],
            "teams": {"bench": {"key": KEY}}}


@contextmanager
def gateway(transport: str, provider_port: int, *, passing: bool = False) -> Iterator[Running]:
    """`passing`: client and provider speak one API, and nothing of an answer must change."""
    with _running_gateway(transport, _configuration(provider_port, passing=passing)) as (whole, running):
        yield running(Side("one API", whole.port, "/v1/chat/completions") if passing else Side(transport, whole.port))


@contextmanager
def responses(provider_port: int, *, client: bool) -> Iterator[Running]:
    """The Responses API on one side, on the native transport: that of the client, at a provider of Chat Completions; or
    that of the provider, for a Messages client."""
    config = _configuration(provider_port, endpoint="chat" if client else "responses")
    with _running_gateway("native", config) as (whole, running):
        yield running(Side("from Responses", whole.port, "/v1/responses") if client
                      else Side("to Responses", whole.port))


@contextmanager
def _running_gateway(transport: str,
                     config: dict[str, object]) -> Iterator[tuple[Gateway, Callable[[Side], Running]]]:
    with tempfile.TemporaryDirectory() as directory:
        whole = Gateway(config, Path(directory), {"EXTPROC_TRANSPORT": transport})
        try:
            yield whole, lambda side: Running(side, whole.worker_pids(), whole.envoy_pids())
        finally:
            whole.terminate(30)


@contextmanager
def one_hop(provider_port: int) -> Iterator[Running]:
    """The shipped Envoy of one-hop mode, its processor on TCP: one ext_proc filter, no choice of a route."""
    config = {**_configuration(provider_port), "one_hop": BACKEND}
    del config["teams"]
    edge, processor = free_port(), free_port()
    with (tempfile.TemporaryDirectory() as directory,
          running(config, adapted(edge, processor, provider_port), Path(directory), edge, processor) as pair):
        yield Running(Side("one hop", edge), pair.worker_pids, pair.envoy_pids)


@contextmanager
def floor(provider_port: int) -> Iterator[Running]:
    """The gateway's Envoy with a worker that only hands on (`tests.bench.floor`)."""
    edge = free_port()
    with tempfile.TemporaryDirectory() as directory:
        file, envoy_file, socket = (Path(directory) / name for name in ("extproc.yaml", "envoy.json", "worker.sock"))
        file.write_text(json.dumps({**_configuration(provider_port), "listen": f"127.0.0.1:{edge}"}))
        envoy_file.write_text(json.dumps(static_bootstrap(
            load_config(file, {}), with_secrets=True, sockets=[f"unix:{socket}"])))
        worker = Process("floor", [sys.executable, "-m", "tests.bench.floor", str(file), f"unix:{socket}"])
        envoy = None
        try:
            worker.wait_for_line(re.compile("ready"), 20)
            envoy = Process("envoy", [binary(), "-c", str(envoy_file), "--disable-hot-restart", "--concurrency", "1",
                                      "--log-level", "warning"])
            _wait_for(envoy, f"http://127.0.0.1:{edge}/healthz", 30)
            yield Running(Side("floor", edge), [worker.process.pid], [envoy.process.pid])
        finally:
            for process in (envoy, worker):
                if process is not None:
                    process.terminate()


@contextmanager
def plain(provider_port: int) -> Iterator[Running]:
    with tempfile.TemporaryDirectory() as directory:
        envoy = PlainEnvoy(Path(directory), provider_port, threads=2)
        try:
            yield Running(Side("plain Envoy", envoy.port, "/v1/chat/completions"), [], [envoy.process.pid])
        finally:
            envoy.stop()


def litellm_program() -> str | None:
    """LiteLLM's proxy beside the interpreter or on PATH, or where BENCH_LITELLM says."""
    beside = Path(sys.executable).parent / "litellm"
    return os.environ.get("BENCH_LITELLM") or (str(beside) if beside.exists() else shutil.which("litellm"))


@contextmanager
def litellm(provider_port: int) -> Iterator[Running]:
    """The same translation in LiteLLM: Messages in, Chat Completions out, one worker, no database."""
    program = litellm_program()
    if program is None:
        raise GatewayError("litellm is not installed")
    port = free_port()
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "litellm.yaml"
        parameters = {"model": "hosted_vllm/*", "api_base": f"http://127.0.0.1:{provider_port}/v1", "api_key": "none"}
        file.write_text(json.dumps({"model_list": [{"model_name": "*", "litellm_params": parameters}]}))
        quiet = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False", "NO_PROXY": "*",
                 "LITELLM_MASTER_KEY": KEY, "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true"}
        command = [program, "--config", str(file), "--port", str(port), "--host", "127.0.0.1"]
        process = Process("litellm", command, quiet)
        try:
            _wait_for(process, f"http://127.0.0.1:{port}/health/liveliness", 90)
            yield Running(Side("LiteLLM", port), [process.process.pid, *descendants(process.process.pid)], [])
        finally:
            process.process.kill()  # asked politely, it waits for streams that nobody reads any more
            process.process.wait(10)


def _wait_for(process: Process, url: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.process.poll() is None:
        with suppress(URLError, OSError), urlopen(url, timeout=2):
            return
        time.sleep(0.2)
    raise GatewayError(f"{process.name} did not start:\n{process.output}")
