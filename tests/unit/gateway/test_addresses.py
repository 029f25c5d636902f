"""An error for an unusable address names it, with the reason or with advice."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from extproc.config import Backend, Config
from extproc.gateway import admin
from extproc.gateway.addresses import check_socket_path, format_address, is_port_free, resolve_port
from extproc.gateway.child_processes import StartError


def test_port_zero_becomes_a_free_port() -> None:
    port = resolve_port("127.0.0.1", 0)
    assert port > 0
    assert is_port_free("127.0.0.1", port)


def test_the_error_for_a_taken_port_names_a_free_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert not is_port_free("127.0.0.1", port)
        with pytest.raises(StartError, match=rf"port {port} is taken.*--port \d+"):
            resolve_port("127.0.0.1", port)


def test_an_address_of_another_machine() -> None:
    with pytest.raises(StartError, match=r"cannot listen on 192\.0\.2\.1:1234"):
        resolve_port("192.0.2.1", 1234)


def test_an_invalid_socket_path() -> None:
    with pytest.raises(StartError, match="longer than the 107 bytes"):
        check_socket_path("/tmp/" + "x" * 103)
    with pytest.raises(StartError, match="holds #, which gRPC does not accept"):
        check_socket_path("/tmp/#1.sock")
    with pytest.raises(StartError, match="there is no folder /nowhere"):
        check_socket_path("/nowhere/w.sock")


def test_only_an_old_socket_may_exist_at_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes").write_text("keep me", encoding="utf-8")
    with pytest.raises(StartError, match="cannot listen on notes: something else has that name"):
        check_socket_path("notes")
    with socket.socket(socket.AF_UNIX) as old:
        old.bind("old.sock")
        check_socket_path("old.sock")
    check_socket_path("new.sock")


def test_ipv6_gets_brackets() -> None:
    assert format_address("::1", 80) == "[::1]:80"
    assert format_address("127.0.0.1", 80) == "127.0.0.1:80"


def configuration(address: str) -> Config:
    return Config(admin=address, backends={"b": Backend(api="openai", url="http://127.0.0.1:1")}, models=[])


def test_a_configured_admin_port_that_is_taken_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(StartError, match="is taken"):
        admin.admin_address(configuration(f"127.0.0.1:{taken.getsockname()[1]}"))


def test_the_default_admin_port_yields_to_a_free_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        default = f"127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setattr(admin, "DEFAULT_ADDRESS", default)
        assert admin.admin_address(configuration(default)) == ("127.0.0.1", 0)
