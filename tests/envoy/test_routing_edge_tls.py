"""TLS for clients, on the real Envoy: the certificate comes from files, a new one without a restart and while streams
go on."""

from __future__ import annotations

import http.client
import os
import shutil
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from extproc.config import Attempt, Backend, Config, EdgeTls, ModelRule
from extproc.envoy_config import static_bootstrap, validate_with_envoy
from extproc.gateway.certificates import CertificateWatcher
from tests.envoy.certificates import authority, certificate, needs_openssl
from tests.envoy.log_lines import entries
from tests.envoy.running import Answer, Provider, RunningEnvoy
from tests.ports import free_port

pytestmark = needs_openssl


class SecureEnvoy(RunningEnvoy):
    """Clients connect as `localhost` and trust one authority."""

    def __init__(self, config: Config, ca: Path) -> None:
        self.ca = str(ca)
        self.context = ssl.create_default_context(cafile=self.ca)
        super().__init__(config)

    def request(self, method: str, path: str, body: bytes | None = None,
                headers: Mapping[str, str] | None = None) -> Answer:
        connection = http.client.HTTPSConnection("localhost", self.port, timeout=20, context=self.context)
        try:
            connection.request(method, path, body, dict(headers or {}))
            response = connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def serial(self, *protocols: str) -> tuple[str, str | None]:
        """The serial number of the certificate that a new client sees, and the protocol that both agreed upon."""
        context = ssl.create_default_context(cafile=self.ca)
        if protocols:
            context.set_alpn_protocols(list(protocols))
        with (socket.create_connection(("127.0.0.1", self.port), 10) as plain,
              context.wrap_socket(plain, server_hostname="localhost") as secure):
            return str(secure.getpeercert()["serialNumber"]), secure.selected_alpn_protocol()  # type: ignore[index]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """`trusted.pem`, and in `live` the pair that Envoy uses."""
    authority(tmp_path, "trusted")
    (tmp_path / "live").mkdir()
    by_rename(tmp_path, "first")
    return tmp_path


def by_rename(folder: Path, name: str) -> None:
    """The key first: the certificate's arrival is the last."""
    for made, live in zip(certificate(folder, "trusted", "DNS:localhost", name), ("tls.crt", "tls.key"), strict=True):
        shutil.copy(made, folder / "live" / f".{live}")
    for live in ("tls.key", "tls.crt"):
        os.replace(folder / "live" / f".{live}", folder / "live" / live)


def by_link(folder: Path, name: str) -> None:
    """As Kubernetes does: tls.crt -> ..data/tls.crt, where ..data points to a new folder each time."""
    live = folder / "live"
    (live / f"..{name}").mkdir()
    for made, file in zip(certificate(folder, "trusted", "DNS:localhost", name), ("tls.crt", "tls.key"), strict=True):
        shutil.copy(made, live / f"..{name}" / file)
    (live / "..data_tmp").symlink_to(f"..{name}")
    os.replace(live / "..data_tmp", live / "..data")
    for file in ("tls.crt", "tls.key"):
        if not (live / file).is_symlink():
            (live / file).unlink()
            (live / file).symlink_to(Path("..data") / file)


def in_place(folder: Path, name: str) -> None:
    """The files stay the same, with another content."""
    for made, live in zip(certificate(folder, "trusted", "DNS:localhost", name), ("tls.crt", "tls.key"), strict=True):
        shutil.copy(made, folder / "live" / live)


def configuration(folder: Path, port: int) -> Config:
    return Config(
        listen=f"127.0.0.1:{free_port()}", tls=EdgeTls(
            certificate=str(folder / "live" / "tls.crt"), key=str(folder / "live" / "tls.key")),
        backends={"b": Backend(api="openai", url=f"http://127.0.0.1:{port}/v1", key="k")},
        models=[ModelRule(match="m", attempts=[Attempt(backend="b", model="x")])])


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[[int], SecureEnvoy]]:
    started: list[SecureEnvoy] = []

    def envoy(port: int) -> SecureEnvoy:
        started.append(SecureEnvoy(configuration(folder, port), folder / "trusted.pem"))
        return started[-1]

    yield envoy
    for one in started:
        one.stop()


def test_clients_connect_with_tls_and_only_with_tls(start: Callable[[int], SecureEnvoy]) -> None:
    provider = Provider().start()
    try:
        envoy = start(provider.port)
        assert envoy.ask("m").status == 200
        assert envoy.serial("h2", "http/1.1")[1] == "h2"
        assert envoy.serial("http/1.1")[1] == "http/1.1"
        with pytest.raises((http.client.HTTPException, OSError)):
            RunningEnvoy.request(envoy, "GET", "/healthz")
    finally:
        provider.stop()


def test_a_handshake_that_fails_is_logged_as_a_connection(folder: Path) -> None:
    """There is no request then."""
    envoy = SecureEnvoy(configuration(folder, 1), folder / "trusted.pem")
    try:
        strangers = ssl.create_default_context()  # they do not know our authority
        with (socket.create_connection(("127.0.0.1", envoy.port), timeout=10) as plain,
              pytest.raises(ssl.SSLError)):
            strangers.wrap_socket(plain, server_hostname="localhost")
        assert envoy.ask("refused").status == 404
    finally:
        envoy.stop()
    failed, = (line for line in entries(envoy.access_log) if line["event"] == "connection")
    assert (failed["outcome"], failed["client"]) == ("error", "127.0.0.1")
    assert "TLS_error" in failed["reason"]


class Followed:
    """The files of a running Envoy's certificate under the eyes of `extproc up`; `said` is what an operator reads."""

    def __init__(self, envoy: SecureEnvoy) -> None:
        self.said: list[str] = []
        self.serial = envoy.serial
        self.certificates = CertificateWatcher(lambda: envoy.config.tls, envoy.layout.reload_trigger, self.said.append)

    def until(self, holds: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + 20
        while not holds():
            assert time.monotonic() < end, f"{what}: {self.said}"
            self.certificates.check()
            time.sleep(0.01)


@pytest.mark.parametrize("change", [by_rename, by_link, in_place])
def test_a_new_certificate_is_used_without_a_restart_while_streams_go_on(
        start: Callable[[int], SecureEnvoy], folder: Path, change: Callable[[Path, str], None]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as slow:
        envoy = start(slow.getsockname()[1])
        followed = Followed(envoy)
        before = envoy.serial()
        answers: list[Answer] = []
        asking = threading.Thread(target=lambda: answers.append(envoy.ask("m")))
        asking.start()
        with slow.accept()[0] as provider:
            provider.recv(65536)
            provider.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nha")
            change(folder, "second")
            followed.until(lambda: envoy.serial() != before, "the old certificate is still shown")
            provider.sendall(b"lf")
            asking.join(10)
        assert [answer.body for answer in answers] == [b"half"]
        assert followed.said == [
            f"tls: new connections get the new certificate of {folder}/live/tls.crt"]


def test_half_of_a_pair_is_not_used(start: Callable[[int], SecureEnvoy], folder: Path) -> None:
    envoy = start(1)
    followed = Followed(envoy)
    before = envoy.serial()
    made, key = certificate(folder, "trusted", "DNS:localhost", "second")
    shutil.copy(made, folder / "live" / "tls.crt")
    followed.until(lambda: bool(followed.said), "the two files do not belong together")
    assert "cannot be used (KEY_VALUES_MISMATCH); the previous certificate stays in use" in followed.said[0]
    assert envoy.serial() == before
    shutil.copy(key, folder / "live" / "tls.key")
    followed.until(lambda: envoy.serial() != before, "the old certificate is still shown")
    (folder / "live" / "tls.key").write_text("")
    followed.until(lambda: len(followed.said) == 3, "an empty file is no key")
    assert "cannot be used" in followed.said[2]


def test_the_private_key_stands_in_no_file_of_the_gateway(start: Callable[[int], SecureEnvoy], folder: Path) -> None:
    envoy = start(1)
    secret = (folder / "live" / "tls.key").read_text().splitlines()[1]
    assert not [file for file in envoy.layout.config.iterdir() if secret in file.read_text()]


def test_envoy_takes_the_static_bootstrap(folder: Path) -> None:
    made = static_bootstrap(configuration(folder, 1), with_secrets=False, sockets=["127.0.0.1:1"])
    assert validate_with_envoy(made) == []
