"""What the configuration says about routing: several keys, equal attempts, deadlines, certificates, proxies. Errors and
warnings stand at their path, secrets are never shown."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from extproc.config import Attempt, Backend, Config, ConfigError, ModelRule, load_config, warnings_of
from extproc.config.backends import Proxy, parse_proxy
from extproc.config.models import MOST_ATTEMPT_ORDERS
from extproc.worker.exchange_log import configured_secrets

ENV = {"A": "key-a", "B": "key-b", "PROXY": "http://me:pass-word@proxy.example:3128"}


def load(folder: Path, backend: dict[str, Any] | None = None, attempts: list[dict[str, Any]] | None = None,
         **top: Any) -> Config:
    file = folder / "extproc.yaml"
    file.write_text(json.dumps({
        "backends": {"b": {"api": "openai", "url": "https://api.example/v1", **(backend or {})},
                     "c": {"api": "openai", "url": "https://other.example/v1"}},
        "models": [{"match": "m", "attempts": attempts or [{"backend": "b", "model": "x"}, {"backend": "c",
                                                                                            "model": "x"}]}], **top}))
    return load_config(file, ENV)


def problems(folder: Path, **given: Any) -> list[tuple[str, str]]:
    with pytest.raises(ConfigError) as caught:
        load(folder, **given)
    return caught.value.problems


def warnings(folder: Path, **given: Any) -> list[tuple[str, str]]:
    return warnings_of(load(folder, **given))


# -------------------------------------------------------------------------------------------------------- several keys


def test_keys_are_texts_or_mappings(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("from-file\n")
    backend = load(tmp_path, {"keys": ["${A}", {"key": "${B}", "weight": 3}, {"key_file": "file"}]}).backends["b"]
    assert [(entry.key, entry.weight) for entry in backend.key_entries] == [("key-a", 1), ("key-b", 3), (None, 1)]
    assert backend.key_entries[2].key_file == str(tmp_path / "file"), "relative to the configuration"
    assert backend.known_keys == ("key-a", "key-b", "from-file")
    assert backend.has_key


def test_no_key_is_shown_and_all_are_scrubbed(tmp_path: Path) -> None:
    config = load(tmp_path, {"keys": ["${A}", {"key": "${B}"}], "proxy": "${PROXY}"})
    for shown in (repr(config), repr(config.backends["b"].key_entries)):
        assert not [secret for secret in ("key-a", "key-b", "pass-word") if secret in shown]
    assert configured_secrets(config) == ["key-a", "key-b"]


@pytest.mark.parametrize(("backend", "path", "reason"), [
    ({"key": "${A}", "keys": ["${B}"]}, "backends.b.keys", "beside key or key_file"),
    ({"key_file": "/f", "keys": ["${B}"]}, "backends.b.keys", "beside key or key_file"),
    ({"keys": ["${A}", "two words"]}, "backends.b.keys[1]", "holds a space"),
    ({"keys": [""]}, "backends.b.keys[0]", "is empty"),
    ({"keys": ["${MISSING}"]}, "backends.b.keys[0]", "MISSING"),
    ({"keys": [{"weight": 2}]}, "backends.b.keys[0]", "needs one of key and key_file"),
    ({"keys": [{"key": "${A}", "key_file": "/f"}]}, "backends.b.keys[0]", "needs one of key and key_file"),
    ({"keys": [{"key": "${A}", "weight": 0}]}, "backends.b.keys[0].weight", "at least 1"),
    ({"keys": [{"key": "a b"}]}, "backends.b.keys[0].key", "holds a space"),
    ({"keys": [{"key": "${A}", "share": 1}]}, "backends.b.keys[0].share", "unknown key"),
    ({"keys": [7]}, "backends.b.keys[0]", "expected a text or a mapping"),
    ({"keys": "${A}"}, "backends.b.keys", "expected a list"),
    ({"ca": " "}, "backends.b.ca", "not the path of a file"),
    ({"proxy": "proxy.example:3128"}, "backends.b.proxy", "http://"),
    ({"proxy": "socks5://proxy.example:1080"}, "backends.b.proxy", "http://"),
    ({"proxy": "http://"}, "backends.b.proxy", "names no host"),
    ({"proxy": "http://proxy.example/path"}, "backends.b.proxy", "end after the port"),
    ({"proxy": "http://proxy.example:99999"}, "backends.b.proxy", "not a URL"),
    ({"proxy": "http://me:a b@proxy.example"}, "backends.b.proxy", "%XX"),
])
def test_errors_stand_at_their_path(tmp_path: Path, backend: dict[str, Any], path: str, reason: str) -> None:
    found = problems(tmp_path, backend=backend)
    assert [place for place, _ in found] == [path]
    assert reason in found[0][1]
    assert "a b@" not in found[0][1], "it may be a password"


def test_literal_keys_and_passwords_are_named(tmp_path: Path) -> None:
    found = warnings(tmp_path, backend={"keys": ["plain", {"key": "also-plain"}, "${A}"],
                                        "proxy": "http://me:secret@proxy.example:3128"})
    assert [(path, reason.split(" is")[0]) for path, reason in found] == [
        ("backends.b.keys[0]", "the key"), ("backends.b.keys[1].key", "the key"), ("backends.b.proxy", "the password")]


@pytest.mark.parametrize(("backend", "path", "reason"), [
    ({"keys": ["${A}", "${A}"]}, "backends.b.keys", "more than once"),
    ({"keys": ["${A}", {"key_file": "nowhere"}]}, "backends.b.keys[1].key_file", "the others are used"),
    ({"ca": "nowhere.pem"}, "backends.b.ca", "nowhere.pem cannot be read: No such file"),
    ({"ca": "extproc.yaml", "url": "http://api.example/v1"}, "backends.b.ca", "no effect without https"),
    ({"keys": ["${A}"], "url": "http://api.example/v1"}, "backends.b.url", "unencrypted"),
    ({"proxy": "${PROXY}", "url": "http://127.0.0.1:1234/v1"}, "backends.b.proxy", "its own machine"),
])
def test_what_is_probably_not_meant_is_a_warning(tmp_path: Path, backend: dict[str, Any], path: str,
                                                 reason: str) -> None:
    [(place, said)] = warnings(tmp_path, backend=backend)
    assert place == path
    assert reason in said


@pytest.mark.parametrize(("url", "parts"), [
    ("http://proxy.example:3128", Proxy("proxy.example", 3128, False, None)),
    ("http://proxy.example", Proxy("proxy.example", 80, False, None)),
    ("https://proxy.example/", Proxy("proxy.example", 443, True, None)),
    ("http://me:p%20w%25@[::1]:3128", Proxy("::1", 3128, False, "me:p w%")),
    ("http://me@proxy.example:1", Proxy("proxy.example", 1, False, "me:")),
])
def test_a_proxy_is_taken_apart(tmp_path: Path, url: str, parts: Proxy) -> None:
    assert parse_proxy(load(tmp_path, {"proxy": url}).backends["b"].proxy or "") == parts


@pytest.mark.parametrize(("url", "address"), [
    ("https://api.example/v1", "api.example:443"), ("http://api.example:8080", "api.example:8080"),
    ("https://[2001:db8::1]/v1", "[2001:db8::1]:443")])
def test_a_proxy_is_asked_for_host_and_port(url: str, address: str) -> None:
    assert Backend(api="openai", url=url).address == address


# ------------------------------------------------------------------------------------------------------------ attempts


@pytest.mark.parametrize(("attempt", "path"), [
    ({"weight": 0}, "models[0].attempts[0].weight"), ({"weight": -1}, "models[0].attempts[0].weight"),
    ({"first_token_timeout": 0}, "models[0].attempts[0].first_token_timeout")])
def test_numbers_are_above_zero(tmp_path: Path, attempt: dict[str, Any], path: str) -> None:
    assert problems(tmp_path, attempts=[{"backend": "b", "model": "x", **attempt}]) == [(path, "must be above 0")]


@pytest.mark.parametrize("name", ["failures", "time", "longest"])
def test_numbers_of_ejection_are_above_zero(tmp_path: Path, name: str) -> None:
    assert (f"ejection.{name}", "must be above 0") in problems(tmp_path, ejection={name: 0})


def test_an_ejection_does_not_shrink(tmp_path: Path) -> None:
    assert problems(tmp_path, ejection={"time": 60, "longest": 10}) == [
        ("ejection.longest", "must not be shorter than ejection.time")]


def test_a_weight_alone_has_no_effect(tmp_path: Path) -> None:
    attempts = [{"backend": "b", "model": "x", "weight": 3}, {"backend": "c", "model": "x"}]
    [(path, reason)] = warnings(tmp_path, attempts=attempts)
    assert path == "models[0].attempts[0].weight"
    assert "no effect" in reason


def test_the_number_of_orders_is_bounded(tmp_path: Path) -> None:
    attempts = [{"backend": "b", "model": f"{group}-{number}", **({"weight": 1} if number else {})}
                for group in range(5) for number in range(5)]
    [(path, reason)] = problems(tmp_path, attempts=attempts)
    assert path == "models[0].attempts"
    assert str(4 ** 5) in reason
    assert str(MOST_ATTEMPT_ORDERS) in reason


def test_rules_keep_their_names_where_nothing_new_is_said() -> None:
    """A request that is under way while the gateway is upgraded finds its rule."""
    plain, weighted = (ModelRule(match="m", attempts=[Attempt(backend="b", model="x", weight=weight)])
                       for weight in (None, 1))
    said = hashlib.sha256(b'{"match":"m","attempts":[{"backend":"b","model":"x"}]}').hexdigest()
    assert plain.id == f"{plain.route_key}.{said[:8]}"
    assert weighted.id != plain.id


@pytest.mark.parametrize(("top", "attempt", "path"), [
    ({"timeouts": {"first_token": 300}}, {}, "timeouts.first_token"),
    ({}, {"first_token_timeout": 240}, "models[0].attempts[0].first_token_timeout")])
def test_a_deadline_behind_the_idle_time_is_a_warning(tmp_path: Path, top: dict[str, Any], attempt: dict[str, Any],
                                                      path: str) -> None:
    attempts = [{"backend": "b", "model": "x", **attempt}, {"backend": "c", "model": "x"}]
    [(place, reason)] = warnings(tmp_path, attempts=attempts, **top)
    assert place == path
    assert "timeouts.idle" in reason


# ----------------------------------------------------------------------------------------------------------------- tls


def test_files_of_a_certificate_start_at_the_configurations_folder(tmp_path: Path) -> None:
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).write_text("x")
    config = load(tmp_path, tls={"certificate": "tls.crt", "key": "tls.key"})
    assert config.tls is not None
    assert (config.tls.certificate, config.tls.key) == (str(tmp_path / "tls.crt"), str(tmp_path / "tls.key"))
    assert warnings_of(config) == []


def test_a_certificate_that_is_not_there_yet_is_a_warning(tmp_path: Path) -> None:
    found = warnings(tmp_path, tls={"certificate": "tls.crt", "key": "tls.key"})
    assert [path for path, _ in found] == ["tls.certificate", "tls.key"]


@pytest.mark.parametrize(("tls", "path"), [({"certificate": "tls.crt"}, "tls.key"), ({"key": "tls.key"},
                                                                                    "tls.certificate")])
def test_a_certificate_needs_its_key(tmp_path: Path, tls: dict[str, str], path: str) -> None:
    assert path in dict(problems(tmp_path, tls=tls))
