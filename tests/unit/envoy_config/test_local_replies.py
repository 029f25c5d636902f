"""Envoy's own replies: each client API writes its own shape, and every request gets one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from extproc.apis import CLIENT_APIS
from extproc.endpoints import CLIENT_TRAITS, FALLBACK_API
from extproc.envoy_config.local_replies import edge_replies, hop_replies
from extproc.envoy_config.rendering import to_json
from extproc.errors import GATEWAY_REFUSALS, Failure

Json = dict[str, Any]


def mappers(where: str) -> list[tuple[str, Json]]:
    """(condition, body) of each reply, at the `edge` or in a `hop`."""
    replies = to_json(edge_replies() if where == "edge" else hop_replies())
    return [(mapper["filter"]["extension_filter"]["typed_config"]["expression"],
             mapper["body_format_override"]["json_format"]) for mapper in replies["mappers"]]


def test_every_api_with_errors_of_its_own_is_a_client_api() -> None:
    assert set(CLIENT_TRAITS) <= set(CLIENT_APIS)


@pytest.mark.parametrize("where", ["edge", "hop"])
def test_each_api_has_every_reply_and_the_fallback_comes_last(where: str) -> None:
    found = mappers(where)
    replies, rest = divmod(len(found), len(CLIENT_TRAITS))
    assert rest == 0
    own = [condition for condition, _ in found[:-replies]]
    assert all("request." in condition or "'extproc.client'" in condition for condition in own)
    last, _ = found[-1]
    assert last == "response.code >= 400 && !response.code_details.startsWith('extproc_') && (true)"


@pytest.mark.parametrize("where", ["edge", "hop"])
@pytest.mark.parametrize("api", sorted(set(CLIENT_TRAITS) - {FALLBACK_API}))
def test_a_client_reads_the_same_error_as_one_of_the_processor(where: str, api: Any) -> None:
    bodies = [body for condition, body in mappers(where) if "response.code == 413" in condition]
    request_id = "%STREAM_ID%" if where == "edge" else "%DYNAMIC_METADATA(extproc.client:id)%"
    too_large = Failure("too_large", GATEWAY_REFUSALS["too_large"], code="request_too_large")
    encoded = CLIENT_APIS[api].encode_error(too_large, request_id)
    assert msgspec.json.decode(encoded.body) in bodies
