"""Weighted attempts: which one a request takes first, and that both hops mean the same one."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from typing import Any

import pytest

from extproc.config import Attempt, Config, ModelRule
from extproc.config.models import attempt_orders
from extproc.ext_proc.attempt import RoutingMismatchError, choose_attempt_order, find_attempt_by_route
from extproc.ext_proc.select import SelectExchange
from tests.unit.ext_proc.playbook import Playbook, config, request_body, request_headers


def rule(*weights: int | None, backends: str = "ab") -> ModelRule:
    """An attempt for each weight, on backends that alternate."""
    names = {"a": "alpha", "b": "beta"}
    return ModelRule(match="m", attempts=[
        Attempt(backend=names[backends[number % len(backends)]], model=f"model-{number}", weight=weight)
        for number, weight in enumerate(weights)])


def select(found: ModelRule, *, request_id: str, **body: Any) -> str | None:
    """The order that the edge hop chooses."""
    play = Playbook(SelectExchange(config(models=[found]), request_id=request_id, now=0.0))
    play >> request_headers() >> request_body(
        {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}], **body})
    head: dict[str, str] = play.take()[0][1]
    return head.get("x-extproc-order")


@pytest.mark.parametrize(("weights", "orders"), [
    ([None, None], [(1.0, (0, 1))]),
    ([3, 1], [(0.75, (0, 1)), (0.25, (1, 0))]),
    ([3, 1, None], [(0.75, (0, 1, 2)), (0.25, (1, 0, 2))]),
    ([None, 1, 1], [(0.5, (0, 1, 2)), (0.5, (0, 2, 1))]),
    ([1, 2, 1], [(0.25, (0, 1, 2)), (0.5, (1, 0, 2)), (0.25, (2, 1, 0))]),
    ([1, None, 1], [(1.0, (0, 1, 2))]),
    ([1, 1, None, 1, 1], [(0.25, (0, 1, 2, 3, 4)), (0.25, (0, 1, 2, 4, 3)), (0.25, (1, 0, 2, 3, 4)),
                          (0.25, (1, 0, 2, 4, 3))]),
])
def test_each_weighted_attempt_comes_first_for_its_share_and_the_heavier_follow(
        weights: list[int | None], orders: list[tuple[float, tuple[int, ...]]]) -> None:
    assert [(order.share, order.attempts) for order in attempt_orders(weights)] == orders


def test_requests_spread_by_weight() -> None:
    found = rule(3, 1)
    taken = Counter(choose_attempt_order(found, str(uuid.UUID(int=number)).encode()) for number in range(4000))
    assert 2850 < taken[0] < 3150


@pytest.mark.parametrize("said", [{"prompt_cache_key": "session-1"}, {"metadata": {"user_id": "session-1"}}])
def test_requests_of_one_conversation_stay_together(said: dict[str, Any]) -> None:
    """So that the provider's prompt cache hits, in every worker, after every restart."""
    found = rule(1, 1)
    assert len({select(found, request_id=f"id-{number}", **said) for number in range(20)}) == 1
    conversations = {json.dumps(said).replace("session-1", f"session-{number}") for number in range(20)}
    assert {select(found, request_id="id", **json.loads(one)) for one in conversations} == {"0", "1"}


@pytest.mark.parametrize("said", [
    {}, {"metadata": {}}, {"metadata": {"user_id": None}}, {"metadata": 5}, {"metadata": [1]}, {"metadata": None},
    {"prompt_cache_key": None}, {"prompt_cache_key": ""}])
def test_what_says_nothing_is_spread_by_request(said: dict[str, Any]) -> None:
    found = rule(1, 1)
    assert {select(found, request_id=f"id-{number}", **said) for number in range(20)} == {"0", "1"}


def test_without_weights_no_order_is_named() -> None:
    assert select(rule(None, None), request_id="id") is None
    assert select(rule(5), request_id="id") is None


def test_both_hops_mean_the_same_attempt() -> None:
    found = rule(1, 1, None)
    settings: Config = config(models=[found])
    for number, order in enumerate(found.attempt_orders):
        for count, index in enumerate(order.attempts, 1):
            choice = find_attempt_by_route(settings, {
                "x-extproc-route": found.id, "x-extproc-order": str(number), "x-envoy-attempt-count": str(count)},
                found.attempts[index].backend)
            assert (choice.attempt, choice.number, choice.last) == (found.attempts[index], count, count == 3)


def test_an_attempt_that_came_to_another_backend_is_an_error() -> None:
    found = rule(1, 1)
    with pytest.raises(RoutingMismatchError):
        find_attempt_by_route(config(models=[found]), {"x-extproc-route": found.id, "x-extproc-order": "1"}, "alpha")


@pytest.mark.parametrize("order", ["", "7", "x", "-1", "²"])
def test_an_order_that_there_is_not_is_that_of_the_file(order: str) -> None:
    found = rule(1, 1)
    headers = {"x-extproc-route": found.id, "x-extproc-order": order}
    choice = find_attempt_by_route(config(models=[found]), headers, "alpha")
    assert choice.attempt == found.attempts[0]
