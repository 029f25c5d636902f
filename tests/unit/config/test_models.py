"""`models`: ids of rules, names for providers, weights, and the problems about them."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import pytest

from extproc.config import Attempt, ModelRule
from extproc.config.models import MOST_ATTEMPT_ORDERS
from tests.unit.config.files import has_problem, problems, warnings


def rule(match: str, *listed: str, **attempt: Any) -> ModelRule:
    """A rule with one attempt, at backend `b` as model `x` unless `attempt` says otherwise."""
    return ModelRule(match=match, attempts=[Attempt(**{"backend": "b", "model": "x", **attempt})], list=list(listed))


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:8]


# ---------------------------------------------------------------------------------------------------------------- ids


@pytest.mark.parametrize("match", ["claude-*", "*", "Ünï/ code\n", "x" * 300])
def test_a_rule_id_fits_a_header_and_follows_the_content(match: str) -> None:
    assert re.fullmatch(r"[a-z0-9-]{1,60}-[0-9a-f]{8}\.[0-9a-f]{8}", rule(match).id)
    assert rule(match).id == rule(match).id
    assert rule(match).id != rule(match, model="y").id


def test_a_rule_id_does_not_change_with_a_version_that_adds_keys() -> None:
    """Envoy's bootstrap and the processor may be of two versions during an upgrade."""
    assert rule("m").id == rule("m", safety={}, max_output_tokens=None, weight=None).id
    route_key = "m-" + digest(b'["m",[["b",null]]]')
    assert rule("m").id == f"{route_key}." + digest(b'{"match":"m","attempts":[{"backend":"b","model":"x"}]}')


@pytest.mark.parametrize(("changed", "other_route", "other_id"), [
    (rule("m", model="y"), False, True), (rule("m", max_output_tokens=5), False, True), (rule("m", "m"), False, False),
    (rule("m*"), True, True), (rule("m", backend="c"), True, True), (rule("m", weight=2), True, True)])
def test_the_route_key_covers_what_envoy_needs_and_the_id_what_serves_a_request(
        changed: ModelRule, other_route: bool, other_id: bool) -> None:
    assert (changed.route_key != rule("m").route_key, changed.id != rule("m").id) == (other_route, other_id)
    assert changed.id.startswith(f"{changed.route_key}.")


# -------------------------------------------------------------------------------------------------- names and numbers


@pytest.mark.parametrize(("model", "match", "requested", "sent"), [
    ("qwen3", "claude-*", "claude-opus", "qwen3"),
    ("*", "local/*", "local/qwen", "local/qwen"),
    ("{star}", "openrouter/*", "openrouter/qwen/qwen3", "qwen/qwen3"),
    ("models/{star}-latest", "g-*", "g-pro", "models/pro-latest"),
])
def test_the_name_for_the_provider(model: str, match: str, requested: str, sent: str) -> None:
    assert Attempt(backend="b", model=model).provider_model(match, requested) == sent


@pytest.mark.parametrize(("match", "attempt", "path", "words"), [
    ("", {}, "models[0].match", "empty"),
    ("m", {"model": "a*"}, "models[0].attempts[0].model", "alone"),
    ("m", {"model": "{star}"}, "models[0].attempts[0].model", "needs a match with a *"),
    ("m", {"weight": 0}, "models[0].attempts[0].weight", "above 0"),
    ("m", {"weight": -1}, "models[0].attempts[0].weight", "above 0"),
    ("m", {"first_token_timeout": 0}, "models[0].attempts[0].first_token_timeout", "above 0"),
])
def test_a_mistake_is_named_at_its_path(tmp_path: Path, match: str, attempt: dict[str, Any], path: str,
                                        words: str) -> None:
    models = [{"match": match, "attempts": [{"backend": "b", "model": "x", **attempt}]}]
    found = problems(tmp_path, models=models)
    assert has_problem(found, path, words), found


# ------------------------------------------------------------------------------------------------------------ weights


def test_a_single_weight_has_no_effect(tmp_path: Path) -> None:
    attempts = [{"backend": "b", "model": "x", "weight": 3}, {"backend": "c", "model": "x"}]
    [(path, reason)] = warnings(tmp_path, attempts=attempts)
    assert path == "models[0].attempts[0].weight"
    assert "no effect" in reason


def test_the_number_of_attempt_orders_is_bounded(tmp_path: Path) -> None:
    attempts = [{"backend": "b", "model": f"{group}-{number}", **({"weight": 1} if number else {})}
                for group in range(5) for number in range(5)]
    [(path, reason)] = problems(tmp_path, attempts=attempts)
    assert path == "models[0].attempts"
    assert str(4 ** 5) in reason
    assert str(MOST_ATTEMPT_ORDERS) in reason
