"""The commands that containers run beside the gateway: `ready`, `drain`, and `envoy-config` into a file."""

from __future__ import annotations

import http.server
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from extproc.cli import app
from extproc.config import Attempt, Backend, Config, ModelRule
from extproc.config.checks import problems_of
from extproc.envoy_config.clusters import processor_cluster
from extproc.ext_proc.roles import make_exchange
from extproc.gateway.admin import AdminServer


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


# --------------------------------------------------------------------------------------------------------------- ready


@pytest.fixture
def admin() -> Iterator[AdminServer]:
    server = AdminServer(("127.0.0.1", 0), lambda: b"")
    yield server
    server.close()


def test_ready_says_what_the_admin_port_says(admin: AdminServer) -> None:
    asked = ("ready", "--admin", f"127.0.0.1:{admin.port}")
    assert (run(*asked).exit_code, run(*asked).output) == (1, "the gateway is starting\n")
    admin.start_serving(list)
    assert (run(*asked).exit_code, run(*asked).output) == (0, "ready\n")


def test_ready_where_nobody_listens() -> None:
    done = run("ready", "--admin", "127.0.0.1:1")
    assert done.exit_code == 1
    assert done.output.startswith("127.0.0.1:1: ")


# --------------------------------------------------------------------------------------------------------------- drain


class EnvoysAdmin:
    """An admin endpoint on a Unix socket that counts `active` requests down, one for each look."""

    def __init__(self, path: Path, active: list[int]) -> None:
        self.asked: list[str] = []
        endpoint = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self._answer("OK\n")

            def do_GET(self) -> None:
                self._answer(f"http.edge.downstream_rq_active: {active.pop(0) if active else 0}\n")

            def _answer(self, text: str) -> None:
                endpoint.asked.append(f"{self.command} {self.path.partition('?')[2] or self.path}")
                self.send_response(200)
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_: object) -> None:
                pass

            def address_string(self) -> str:
                return "unix"

        self._server = socketserver.UnixStreamServer(str(path), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


LOOK, LAST_CALL, CLOSE = ("GET filter=^http.edge.downstream_rq_active$", "POST inboundonly&graceful",
                          "POST inboundonly")


def test_drain_returns_when_the_last_answer_has_ended(tmp_path: Path) -> None:
    """Clients are asked to go elsewhere first; the door is closed only when nobody is inside, and looked at again."""
    envoy = EnvoysAdmin(tmp_path / "admin.sock", [2, 1, 0, 1])
    try:
        done = run("drain", "--admin", f"unix:{tmp_path}/admin.sock", "--patience", "20")
    finally:
        envoy.close()
    assert (done.exit_code, done.output) == (0, "")
    assert envoy.asked == [LAST_CALL, LOOK, LOOK, LOOK, CLOSE, LOOK, LOOK]


def test_drain_gives_up_when_patience_ends(tmp_path: Path) -> None:
    envoy = EnvoysAdmin(tmp_path / "admin.sock", [1] * 1000)
    try:
        done = run("drain", "--admin", f"unix:{tmp_path}/admin.sock", "--patience", "0.1")
    finally:
        envoy.close()
    assert done.exit_code == 1
    assert done.output == "some responses were still running after 0.1 s\n"
    assert envoy.asked[:2] == [LAST_CALL, LOOK]


def test_an_envoy_that_is_gone_has_nothing_to_drain(tmp_path: Path) -> None:
    """The hook must not hold up the end of a pod whose Envoy died."""
    assert run("drain", "--admin", f"unix:{tmp_path}/admin.sock").exit_code == 0


def test_drain_says_what_an_address_is() -> None:
    done = run("drain", "--admin", "nowhere")
    assert done.exit_code == 1
    assert done.output == '--admin: "nowhere" is not HOST:PORT\n'


# ------------------------------------------------------------------------------------------------ envoy-config --output


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    file = tmp_path / "gateway.yaml"
    file.write_text('backends: {one: {api: openai, url: "http://127.0.0.1:1/v1", key: a-secret-key}}\n'
                    'models: [{match: m, attempts: [{backend: one, model: m}]}]\n')
    return file


def test_the_bootstrap_goes_into_a_file_of_its_owner(tmp_path: Path, config_file: Path) -> None:
    done = run("envoy-config", "--config", str(config_file), "--with-secrets", "--output", str(tmp_path / "envoy.json"))
    assert (done.exit_code, done.output) == (0, "")
    assert (tmp_path / "envoy.json").stat().st_mode & 0o777 == 0o600
    assert "a-secret-key" in (tmp_path / "envoy.json").read_text()


def test_a_file_that_cannot_be_written_is_named(config_file: Path) -> None:
    done = run("envoy-config", "--config", str(config_file), "--output", "/nowhere/envoy.json")
    assert (done.exit_code, done.output) == (1, "/nowhere/envoy.json: cannot be written: No such file or directory\n")


def test_envoys_admin_is_for_its_owner_only(config_file: Path) -> None:
    shown = run("envoy-config", "--config", str(config_file), "--admin", "unix:/run/extproc/admin.sock").output
    assert '"mode": 384' in shown, "0600"
    assert "admin" not in run("envoy-config", "--config", str(config_file)).output.partition("static_resources")[0]
    assert run("envoy-config", "--config", str(config_file), "--admin", "nowhere").exit_code == 1


def test_processors_may_be_names() -> None:
    """In another container they are. Each address of a name is a worker."""
    by_name = processor_cluster(["processor-1:50051", "127.0.0.1:50052"])
    assert by_name.cluster_type is not None
    assert by_name.cluster_type.name == "envoy.clusters.dns"
    assert processor_cluster(["unix:/run/w0.sock", "127.0.0.1:50052", "[::1]:50053"]).cluster_type is None


# ------------------------------------------------------------------------------------------------------------- one_hop


def one_hop(name: str | None) -> Config:
    return Config(backends={"one": Backend(api="openai", url="http://127.0.0.1:1/v1")}, one_hop=name,
                  models=[ModelRule(match="m", attempts=[Attempt(backend="one", model="m")])])


def test_a_filter_that_says_nothing_is_the_configured_one() -> None:
    exchange = make_exchange(one_hop("one"), {}, request_id="r", now=0)
    assert (exchange.hop, exchange.record.backend) == ("onehop", "one")


def test_a_filter_that_says_what_it_is_for_is_believed() -> None:
    said = {"x-extproc-role": "select"}
    assert make_exchange(one_hop("one"), said, request_id="r", now=0).hop == "select"


def test_without_it_such_a_filter_fails() -> None:
    assert make_exchange(one_hop(None), {}, request_id="r", now=0).hop == "unknown"


def test_it_names_a_backend() -> None:
    assert problems_of(one_hop("two")) == [("one_hop", 'no backend "two"; known: one')]
    assert problems_of(one_hop("one")) == []
