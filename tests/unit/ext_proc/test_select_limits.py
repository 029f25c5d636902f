"""What `select` tells Envoy's rate limit filters: for whom this request counts, where it counts at all."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc.config import Attempt, Backend, ModelRule, Team, TeamLimits
from extproc.ext_proc.select import SelectExchange
from tests.unit.ext_proc.playbook import Playbook, config, request_body, request_headers

ASK = {"model": "one", "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}]}
TEAMS = {"red": Team(key="r", limits=TeamLimits(requests_per_minute=1)), "free": Team(key="f")}


def said(team: str, path: str = "/v1/messages", model: str = "one", **headers: str) -> dict[str, str]:
    """The headers that the exchange sets."""
    claude = {"claude": Backend(api="anthropic", url="https://api.anthropic.com/v1", key="k")}
    base = config()
    settings: dict[str, Any] = {"backends": {**base.backends, **claude}, "models": [
        *base.models, ModelRule(match="claude", attempts=[Attempt(backend="claude", model="c")])], "teams": TEAMS}
    play = Playbook(SelectExchange(config(**settings), request_id="id-of-the-stream", now=1000.0))
    play >> request_headers(path=path, x_extproc_team=team, x_request_id="id-of-the-client", **headers)
    play >> request_body(json.dumps({**ASK, "model": model}).encode())
    head: dict[str, str] = play.take()[0][1]
    return head


def test_a_limited_team_is_named_with_an_id_that_no_client_chooses() -> None:
    head = said("red", x_extproc_stream="mine", x_extproc_limited_team="free")
    assert head["x-extproc-limited-team"] == "red"
    assert head["x-extproc-stream"] == "id-of-the-stream"


@pytest.mark.parametrize(("team", "path", "model"), [
    ("free", "/v1/messages", "one"),
    ("red", "/v1/messages/count_tokens", "claude"),  # the provider counts them, for nothing
])
def test_who_is_not_limited_is_not_named(team: str, path: str, model: str) -> None:
    head = said(team, path, model)
    assert "x-extproc-route" in head
    assert not {"x-extproc-limited-team", "x-extproc-stream"} & head.keys()
