"""Tool names between client and provider."""

from __future__ import annotations

import re

import pytest

from extproc.conversation.model import Message, Request, Tool, ToolCall
from extproc.conversation.tool_names import build_name_map, short_name
from extproc.errors import BadRequest


def names_of(*tools, history=()):
    return build_name_map(Request(
        model="m", tools=[Tool(name, None, {}) for name in tools],
        messages=[Message("assistant", [ToolCall(str(at), name, "") for at, name in enumerate(history)])]))


def test_legal_names_pass_unchanged():
    names = names_of("read", "mcp__a-b__c", "x" * 64)
    assert all(names.to_provider[name] == name == names.client_name(name) for name in ("read", "mcp__a-b__c", "x" * 64))


@pytest.mark.parametrize("name", ["x" * 65, "files.read", "a/b", "été", "", ".", "a b", "a\n"])
def test_p22_other_names_are_mapped_and_restored(name):
    names = names_of(name)
    sent = names.to_provider[name]
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", sent)
    assert names.client_name(sent) == name


def test_p22_equal_prefixes_and_equal_spellings_do_not_collide():
    prefix = "mcp__server__" + "x" * 60
    offered = [prefix + "one", prefix + "two", "a.b", "a/b", "a_b"]
    names = names_of(*offered)
    assert len(set(names.to_provider.values())) == 5
    assert [names.client_name(names.to_provider[name]) for name in offered] == offered


def test_p22_a_mapped_name_that_another_tool_already_has_takes_more_digits():
    squatter = short_name("a.b")
    names = names_of(squatter, "a.b")
    assert names.to_provider[squatter] == squatter
    assert names.to_provider["a.b"] != squatter
    assert names.client_name(squatter) == squatter


def test_p17_a_mapped_name_does_not_depend_on_the_other_tools():
    assert names_of("a.b").to_provider["a.b"] == names_of("x", "y.z", "a.b", "read").to_provider["a.b"]


def test_a_namespace_before_an_offered_name_is_taken_off():
    names = names_of("read", "a.b")
    assert names.client_name("functions.read") == "read"
    assert names.client_name("functions." + names.to_provider["a.b"]) == "a.b"
    assert names.client_name("functions.write") == "functions.write"


def test_names_of_the_history_are_mapped_but_not_offered():
    names = names_of("read", history=["old.tool", "read", "gone"])
    assert names.to_provider["gone"] == "gone"
    assert re.fullmatch(r"old_tool_[0-9a-f]{8}", names.to_provider["old.tool"])
    assert set(names.to_client) == {"read", "functions.read"}


def test_two_tools_of_one_name_are_refused_with_the_place():
    with pytest.raises(BadRequest, match=r"tools\.2\.name.*'read'"):
        names_of("read", "write", "read")
