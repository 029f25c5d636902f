"""Design rule 5 through the public interface: the ids that the gateway makes for an answer and its calls."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from extproc import Translation

TEXT_CALL = '<tool_call>\n{"name": "look", "arguments": {"at": "sea"}}\n</tool_call>'
STREAM = b"".join(b"data: " + json.dumps({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": end}]}
                                         ).encode() + b"\n\n"
                  for delta, end in (({"content": TEXT_CALL}, None), ({}, "stop"))) + b"data: [DONE]\n\n"
SCHEMA = {"type": "object", "properties": {"at": {"type": "string"}}}
TOOLS = {"anthropic": [{"name": "look", "input_schema": SCHEMA}],
         "openai": [{"type": "function", "function": {"name": "look", "parameters": SCHEMA}}]}
TOOLS["events"] = TOOLS["openai"]


def ids(client: str, request_id: str | None = None, model: str = "m", header: str | None = None,
        said: str = "hi") -> list[str]:
    """The id of the call, and that of the answer where the client's API has one."""
    talk = Translation(client, "openai", model, dialect="hermes", request_id=request_id)
    body: dict[str, Any] = {"model": "any", "max_tokens": 9, "stream": True, "tools": TOOLS[client],
                            "messages": [{"role": "user", "content": said}]}
    talk.request(json.dumps(body).encode(), {} if header is None else {"X-Request-Id": header})
    talk.start(200, {})
    out = (talk.feed(STREAM) + talk.finish()).decode()
    found = re.findall(r'"((?:call|toolu|msg|chatcmpl)[-_][^"]+)"', out)
    assert found
    return list(dict.fromkeys(found))


@pytest.mark.parametrize("client", ["anthropic", "openai", "events"])
def test_two_equal_requests_have_different_ids(client: str) -> None:
    first, second = ids(client, "r1"), ids(client, "r2")
    assert len(first) == len(second)
    assert not set(first) & set(second)


@pytest.mark.parametrize("client", ["anthropic", "openai", "events"])
def test_one_request_has_the_same_ids_in_every_worker_and_attempt(client: str) -> None:
    assert ids(client, "r1") == ids(client, "r1")
    assert ids(client, "r1") == ids(client, "r1", model="another/model")
    assert ids(client, "r1") != ids(client, "r1", said="ho")


def test_the_header_stands_in_for_an_id_that_the_caller_does_not_give() -> None:
    assert ids("anthropic", header="r1") == ids("anthropic", header="r1")
    assert ids("anthropic", header="r1") != ids("anthropic", header="r2")
    assert ids("anthropic", "own", header="r1") == ids("anthropic", "own", header="r2")
    assert ids("anthropic") == ids("anthropic"), "nothing random on the command line"


@pytest.mark.parametrize(("client", "form"), [
    ("anthropic", r"toolu_[0-9a-f]{24}"), ("openai", r"call_[0-9a-f]{24}"), ("events", r"call_[0-9a-f]{24}")])
def test_the_ids_of_calls_look_like_those_of_the_clients_own_api(client: str, form: str) -> None:
    assert any(re.fullmatch(form, id) for id in ids(client, "r1"))
