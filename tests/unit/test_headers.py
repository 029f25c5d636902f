"""Header names are lower case, the gateway's own names stand in one file, and the tables agree with one another."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import extproc
from extproc import headers
from extproc.headers import FORGED, INTERNAL_PREFIX, REMOVED_FROM_RESPONSE, filter_names, in_lower_case

PACKAGE = Path(extproc.__file__).parent


def test_names_become_lower_case_and_values_stay() -> None:
    assert in_lower_case({"Content-Type": "Text/Plain", "x-b": "B"}) == {"content-type": "Text/Plain", "x-b": "B"}
    assert in_lower_case({"x-a": "A", "RETRY-AFTER": "1"}) == {"x-a": "A", "retry-after": "1"}


def test_headers_in_lower_case_are_not_copied() -> None:
    given = {":path": "/", "x-a-1": "A"}
    assert in_lower_case(given) is given


def test_no_headers_are_no_headers() -> None:
    assert in_lower_case({}) == {}


def test_a_filter_sees_each_set_of_names_once() -> None:
    asked: list[str] = []

    def is_own(name: str) -> bool:
        asked.append(name)
        return name.startswith("x-")

    own = filter_names(is_own)
    for _ in range(2):
        assert own["x-b", "a", "x-a"] == ("x-b", "x-a")
    assert asked == ["x-b", "a", "x-a"]
    for number in range(50):
        assert own[f"x-{number}" * 1000,] == (f"x-{number}" * 1000,)
    assert list(own) == [("x-b", "a", "x-a")]


def test_a_client_may_send_two_internal_headers() -> None:
    names = ("x-extproc-route", "x-extproc-finalize", "x-extproc-tools", "x-extproc-team", "x-other")
    assert FORGED[names] == ("x-extproc-route", "x-extproc-team")


def test_of_a_providers_headers_only_advice_and_limits_cross() -> None:
    names = ("server", "retry-after", "retry-after-ms", "x-should-retry", "set-cookie", "x-ratelimit-reset", "date",
             "anthropic-ratelimit-tokens-limit", "x-request-id")
    assert REMOVED_FROM_RESPONSE[names] == ("server", "set-cookie", "x-request-id")


def test_every_request_header_of_the_gateway_ends_in_the_hop() -> None:
    to_elsewhere = {"x-extproc-finalize", "x-extproc-tools",  # the translation reads them
                    "x-extproc-dropped", "x-extproc-limit", "x-extproc-other-key",  # responses
                    "x-extproc-hop"}  # removed by the route table that reads it
    own = {value for name, value in vars(headers).items()
           if name.endswith("_HEADER") and value.startswith(INTERNAL_PREFIX)}
    assert own - to_elsewhere == {name for name in headers.REMOVED_IN_HOP if name.startswith(INTERNAL_PREFIX)}


def _strings(tree: ast.AST) -> Iterator[str]:
    """All string literals but docstrings."""
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node.value


def test_no_other_module_spells_a_name_of_the_gateway() -> None:
    spelt = {str(file.relative_to(PACKAGE)) for file in PACKAGE.rglob("*.py")
             for text in _strings(ast.parse(file.read_text(encoding="utf-8"))) if INTERNAL_PREFIX in text.lower()}
    assert spelt == {"headers.py"}
