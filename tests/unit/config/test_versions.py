"""Names of backends during a reload: a changed backend gets a new name, an unchanged one keeps its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from extproc.config import Attempt, Backend, Config, ModelRule
from extproc.config.versions import fingerprint, plain_name, rename_changed_backends

URL = "https://a.example/v1"


def configuration(**urls: str) -> Config:
    return Config(backends={name: Backend(api="openai", url=url) for name, url in urls.items()},
                  models=[ModelRule(match="m", attempts=[Attempt(backend=name, model="x") for name in urls])],
                  one_hop=next(iter(urls)))


def fingerprints(config: Config) -> dict[str, str]:
    return {name: fingerprint(backend) for name, backend in config.backends.items()}


def test_an_unchanged_configuration_stays_as_it_is() -> None:
    config = configuration(a=URL, b=URL)
    assert rename_changed_backends(config, fingerprints(config), [fingerprints(config)]) is config


def test_a_changed_backend_gets_a_new_name_everywhere() -> None:
    changed = configuration(a="https://new.example/v1", b=URL)
    renamed = rename_changed_backends(changed, fingerprints(changed), [fingerprints(configuration(a=URL, b=URL))])
    assert list(renamed.backends) == ["a~2", "b"]
    assert [attempt.backend for attempt in renamed.models[0].attempts] == ["a~2", "b"]
    assert renamed.one_hop == "a~2"
    assert plain_name("a~2") == plain_name("a") == "a"


def test_a_backend_that_is_changed_back_gets_its_name_of_that_time() -> None:
    first, second = configuration(a=URL), configuration(a="https://new.example/v1")
    known = [{"a~2": fingerprint(second.backends["a"])}, fingerprints(first)]
    assert list(rename_changed_backends(first, fingerprints(first), known).backends) == ["a"]
    third = configuration(a="https://newer.example/v1")
    assert list(rename_changed_backends(third, fingerprints(third), known).backends) == ["a~3"]


@pytest.mark.parametrize(("before", "after", "same"), [
    ({"key": "one"}, {"key": "two"}, True), ({"key": "one"}, {}, False),
    ({"keys": ["a", "b"]}, {"keys": ["a", "c"]}, True), ({"keys": ["a", "b"]}, {"keys": ["a"]}, False),
    ({"trace": True}, {"trace": False}, False)])
def test_a_fingerprint_does_not_depend_on_the_values_of_keys(before: dict[str, object], after: dict[str, object],
                                                             same: bool) -> None:
    prints = [fingerprint(Backend(api="openai", url=URL, **changes)) for changes in (before, after)]  # type: ignore[arg-type]
    assert (prints[0] == prints[1]) is same


def test_a_fingerprint_depends_on_the_content_of_trusted_certificates(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    backend = Backend(api="openai", url=URL, ca=str(file))
    missing = fingerprint(backend)
    file.write_text("one")
    first = fingerprint(backend)
    file.write_text("two")
    assert len({missing, first, fingerprint(backend)}) == 3
