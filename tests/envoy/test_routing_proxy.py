"""A backend behind an outgoing proxy, and one with an authority of its own, on the real Envoy."""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from extproc.config import Attempt, Backend, Config, ModelRule
from extproc.envoy_config import static_bootstrap, validate_with_envoy
from tests.envoy.certificates import authority, needs_openssl, server_context
from tests.envoy.running import Provider, RunningEnvoy
from tests.envoy.test_own_replies import anthropic_error
from tests.ports import free_port

pytestmark = needs_openssl

NAME = "provider.example"
"""A name that no resolver knows; only the proxy does."""


@dataclass
class ConnectProxy:
    """An HTTP proxy that knows where NAME is, and whom it lets through. `asked`: the head of each request."""

    where: int
    login: str | None = None
    tls: ssl.SSLContext | None = None
    asked: list[str] = field(default_factory=list)

    def start(self) -> ConnectProxy:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.socket.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._one, args=(self.socket.accept()[0],), daemon=True).start()

    def _one(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            if self.tls is not None:
                client = self.tls.wrap_socket(client, server_side=True)
            head = b""
            while b"\r\n\r\n" not in head:
                head += client.recv(65536)
            self.asked.append(head.decode())
            known = f"CONNECT {NAME}:8443 HTTP/1.1\r\n".encode()
            wanted = "" if self.login is None else base64.b64encode(self.login.encode()).decode()
            if not head.startswith(known) or f"proxy-authorization: basic {wanted}".lower() not in (
                    head.decode().lower() if wanted else "proxy-authorization: basic "):
                client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")
                client.close()
                return
            provider = socket.create_connection(("127.0.0.1", self.where))
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            threading.Thread(target=pump, args=(provider, client), daemon=True).start()
            pump(client, provider)

    def stop(self) -> None:
        self.socket.close()


def pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


@dataclass
class World:
    """A provider with a certificate for NAME, one with one for localhost, each by an authority of its own, and three
    proxies. The machine trusts the authority of the proxy that speaks TLS."""

    folder: Path

    def __post_init__(self) -> None:
        for name in ("inner", "other", "machine"):
            authority(self.folder, name)
        self.provider = Provider(tls=server_context(self.folder, "inner", f"DNS:{NAME}", "provider")).start()
        self.local = Provider(tls=server_context(self.folder, "inner", "DNS:localhost", "local")).start()
        self.plain = ConnectProxy(self.provider.port).start()
        self.secure = ConnectProxy(self.provider.port, login="me:p w%", tls=server_context(
            self.folder, "machine", "DNS:localhost", "proxy")).start()
        inner, url = str(self.folder / "inner.pem"), f"https://{NAME}:8443/v1"
        plain = f"http://localhost:{self.plain.port}"
        own = Backend(api="openai", key="k", url=f"https://localhost:{self.local.port}/v1", ca=inner)
        self.backends = {
            "proxied": Backend(api="openai", key="provider-key", url=url, ca=inner, proxy=plain),
            "with-login": Backend(api="openai", key="k", url=url, ca=inner,
                                  proxy=f"https://me:p%20w%25@localhost:{self.secure.port}"),
            "no-login": Backend(api="openai", key="k", url=url, ca=inner,
                                proxy=f"https://localhost:{self.secure.port}"),
            "wrong-name": Backend(api="openai", key="k", url=f"https://{NAME}:9999/v1", ca=inner, proxy=plain),
            "untrusted": Backend(api="openai", key="k", url=url, ca=str(self.folder / "other.pem"), proxy=plain),
            "proxy-down": Backend(api="openai", key="k", url=url, ca=inner, proxy=f"http://127.0.0.1:{free_port()}"),
            "own-ca": own,
            "machines-ca": Backend(api="openai", key="k", url=own.url),
        }
        rules = [ModelRule(match=name, attempts=[Attempt(backend=name, model="m")]) for name in self.backends]
        rules.append(ModelRule(match="pair", attempts=[
            Attempt(backend="proxy-down", model="m"), Attempt(backend="own-ca", model="m")]))
        self.config = Config(listen=f"127.0.0.1:{free_port()}", backends=self.backends, models=rules)
        self.envoy = RunningEnvoy(self.config, ca=str(self.folder / "machine.pem"))

    def close(self) -> None:
        self.envoy.stop()
        for one in (self.provider, self.local, self.plain, self.secure):
            one.stop()  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("proxy"))
    yield made
    made.close()


def test_the_proxy_is_asked_for_the_name_and_sees_nothing_else(world: World) -> None:
    assert world.envoy.ask("proxied").status == 200
    _, headers, body = world.provider.requests[-1]
    assert (headers["host"], headers["authorization"]) == (f"{NAME}:8443", "Bearer provider-key")
    assert body == b'{"model": "proxied"}'
    head = world.plain.asked[-1]
    assert head.startswith(f"CONNECT {NAME}:8443 HTTP/1.1\r\nhost: {NAME}:8443\r\n")
    assert "authorization" not in head


def test_a_connection_through_the_proxy_is_used_again(world: World) -> None:
    world.envoy.ask("proxied")
    before = len(world.plain.asked)
    assert [world.envoy.ask("proxied").status for _ in range(5)] == [200] * 5
    assert len(world.plain.asked) == before


def test_a_proxy_over_tls_with_a_login(world: World) -> None:
    assert world.envoy.ask("with-login").status == 200
    login = base64.b64encode(b"me:p w%").decode()
    assert f"proxy-authorization: Basic {login}\r\n" in world.secure.asked[-1]
    assert "proxy-authorization" not in world.provider.requests[-1][1]


@pytest.mark.parametrize("name", ["no-login", "wrong-name", "untrusted", "proxy-down"])
def test_what_the_proxy_or_the_certificate_refuses_is_an_error_in_the_clients_shape(world: World, name: str) -> None:
    before = len(world.provider.requests)
    anthropic_error(world.envoy.ask(name), 503, "overloaded_error")
    assert len(world.provider.requests) == before


def test_a_proxy_that_is_down_fails_over(world: World) -> None:
    answer = world.envoy.ask("pair")
    assert (answer.status, answer.headers["x-served-by"]) == (200, "own-ca")


def test_an_authority_of_its_own_is_trusted_instead_of_the_machines(world: World) -> None:
    assert world.envoy.ask("own-ca").status == 200
    assert "TLS certificate" in anthropic_error(world.envoy.ask("machines-ca"), 503, "overloaded_error")


def test_the_static_bootstrap_hides_the_proxys_password_and_is_taken(world: World) -> None:
    made: list[Any] = [static_bootstrap(world.config, with_secrets=with_secrets, sockets=["127.0.0.1:1"])
                       for with_secrets in (True, False)]
    assert [validate_with_envoy(one) for one in made] == [[], []]
    login = base64.b64encode(b"me:p w%").decode()
    assert [login in json.dumps(one) for one in made] == [True, False]
