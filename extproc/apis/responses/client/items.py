"""The items of `input` -> the system texts and the messages of the conversation model.

Leading system and developer messages become the system prompt, later ones keep their position. Everything that the
model wrote between two messages or outputs of the client (reasoning, messages, calls) becomes one assistant message,
outputs of tools become results; the provider side pairs them with their calls. The API keeps nothing, so what a client
sends may be torn: an output without its call becomes text, reasoning that stands alone is left out, an input that ends
with the model's own words is followed by a request to go on. Types that only OpenAI's servers know are named.

Called by `request`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b

import msgspec

from extproc.apis.responses.client.envelopes import unpack_summary, unpack_thinking
from extproc.apis.responses.client.parts import read_content, read_output
from extproc.apis.responses.client.tools import OfferedTools, ToolSource
from extproc.apis.responses.wire_request import ClientItem
from extproc.apis.shared.wire import first_byte, given, is_string, refused
from extproc.conversation.model import Block, Media, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from extproc.conversation.signatures import extract_from_id
from extproc.conversation.tool_results import GO_ON
from extproc.conversation.unsupported import Dropped
from extproc.errors import INVALID_REASONING, BadRequest

_string = msgspec.json.Decoder(str)
_object: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw])
_any = msgspec.json.Decoder()
_encode = msgspec.json.Encoder().encode

SUMMARY_HEAD = "Summary of the conversation so far, which it replaces:\n\n"
"""Before the summary of a compaction item."""
LOADED_TOOLS = "Tools that are available now: "
"""The result of a tool search; the names follow."""

_COMPACTIONS = ("compaction", "compaction_summary", "context_compaction")
_HOSTED = frozenset({"web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call",
                     "mcp_call", "mcp_list_tools", "mcp_approval_request", "computer_call", "program"})
"""What OpenAI's servers did in an earlier turn."""


class Conversation(msgspec.Struct):
    """What the input holds, beside its tools."""

    system: list[Text] = []
    messages: list[Message] = []


def tool_sources(items: Sequence[ClientItem]) -> list[ToolSource]:
    """The lists of tools inside the input: those that the client added, then those that a search found."""
    added = [ToolSource(item.tools, f"input[{at}].tools") for at, item in enumerate(items)
             if item.type == "additional_tools" and item.tools]
    found = [ToolSource(item.tools, f"input[{at}].tools", found=True) for at, item in enumerate(items)
             if item.type == "tool_search_output" and item.tools]
    return [*added, *found]


def decode_items(items: Sequence[ClientItem], offered: OfferedTools, dropped: Dropped) -> Conversation:
    """The conversation. Raises BadRequest with the place."""
    return _ItemReader(items, offered, dropped).read()


class _ItemReader:
    def __init__(self, items: Sequence[ClientItem], offered: OfferedTools, dropped: Dropped) -> None:
        self._items = items
        self._offered = offered
        self._dropped = dropped
        self._system: list[Text] = []
        self._messages: list[Message] = []
        self._turn: list[Block] = []
        self._results: list[Block] = []
        self._calls = {_short_id(item) for item in items if item.type in _CALLS}

    def read(self) -> Conversation:
        for at, item in enumerate(self._items):
            self._read_item(item, at)
        self._end_turn()
        self._end_results()
        if self._messages and self._messages[-1].role == "assistant" \
                and type(self._messages[-1].content[-1]) is not ToolCall:
            self._messages.append(Message("user", [Text(GO_ON)]))
        return Conversation(self._system, self._messages)

    def _read_item(self, item: ClientItem, at: int) -> None:
        kind = item.type or "message"
        if kind == "message":
            self._read_message(item, at)
        elif kind in _CALLS:
            self._add_to_turn(self._read_call(item, kind, at))
        elif kind in _OUTPUTS:
            self._read_output(item, kind, at)
        elif kind == "reasoning":
            self._read_reasoning(item)
        elif kind in _COMPACTIONS:
            self._read_compaction(item, at)
        elif kind == "item_reference":
            raise BadRequest(f"input[{at}]: items are not stored here, so none can be referred to: send the item "
                             "itself (store: false)", code="item_not_found")
        elif kind in _HOSTED:
            self._add_to_turn(Opaque("responses", kind, _encode(item), text=_note_of_hosted(item, kind)))
        elif kind not in ("additional_tools", "compaction_trigger", "configuration_update"):
            self._dropped.loss(f"input.{kind}")

    # ------------------------------------------------------------------------------------------------------- messages

    def _read_message(self, item: ClientItem, at: int) -> None:
        role = item.role or "user"
        content = read_content(item.content, f"input[{at}].content", self._dropped)
        if role == "assistant":
            for block in content:
                self._add_to_turn(block)
            return
        if role in ("system", "developer"):
            texts = [block for block in content if isinstance(block, Text)]
            if len(texts) == len(content) and not (self._messages or self._turn or self._results):
                self._system += texts
            elif content:
                self._add_message("system", content)
            return
        if role != "user":
            raise refused(f"input[{at}].role", f"unknown role {role!r}: expected user, assistant, system or developer")
        if content:
            self._add_message("user", content)

    def _add_message(self, role: str, content: Sequence[Block]) -> None:
        """Neighbouring items of the user are one message: some models take no two in a row."""
        self._end_turn()
        self._end_results()
        last = self._messages[-1] if self._messages else None
        if role == "user" and last is not None and last.role == "user" and type(last.content[-1]) is not ToolResult:
            last.content.extend(content)
        else:
            self._messages.append(Message(role, list(content)))  # type: ignore[arg-type]

    def _add_to_turn(self, block: Block) -> None:
        self._end_results()
        self._turn.append(block)

    def _end_turn(self) -> None:
        """Ends the assistant message. Reasoning without text or a call is left out: it is all that is left of a
        response that broke off, and providers refuse it."""
        turn, self._turn = self._turn, []
        if turn and all(type(block) is Thinking for block in turn):
            self._dropped.hint("input.reasoning")
        elif turn:
            self._messages.append(Message("assistant", turn))

    def _end_results(self) -> None:
        if self._results:
            self._messages.append(Message("user", self._results))
            self._results = []

    def _read_reasoning(self, item: ClientItem) -> None:
        """Only reasoning of this gateway is read; the provider side decides whether its provider issued it."""
        content = _string.decode(item.encrypted_content) if is_string(item.encrypted_content) else ""
        block = unpack_thinking(content)
        if block is None:
            self._dropped.hint("input.reasoning")
        else:
            self._add_to_turn(block)

    def _read_compaction(self, item: ClientItem, at: int) -> None:
        content = _string.decode(item.encrypted_content) if is_string(item.encrypted_content) else ""
        summary = unpack_summary(content)
        if summary is None:
            raise BadRequest(f"input[{at}].encrypted_content: this compaction was not made by this gateway and cannot "
                             "be read: start a new conversation", code=INVALID_REASONING)
        self._add_message("user", [Text(SUMMARY_HEAD + summary)])

    # ---------------------------------------------------------------------------------------------------------- calls

    def _read_call(self, item: ClientItem, kind: str, at: int) -> ToolCall:
        name, arguments = _CALLS[kind](item, self._offered, f"input[{at}]")
        call_id, signature = extract_from_id(_sent_id(item))
        return ToolCall(call_id or _minted_id(at), name, arguments, signature=signature)

    def _read_output(self, item: ClientItem, kind: str, at: int) -> None:
        content = _OUTPUTS[kind](item, self._offered, f"input[{at}].output", self._dropped)
        call_id = _short_id(item)
        self._end_turn()
        if not call_id or call_id not in self._calls:
            self._dropped.hint("tool_result.without_call")
            self._add_message("user", [Text(f"[result of the tool call {call_id or 'without an id'}]"), *content])
            return
        failed = kind == "apply_patch_call_output" and bytes(item.status) == b'"failed"'
        self._results.append(ToolResult(call_id, content, is_error=failed))


def _sent_id(item: ClientItem) -> str:
    """Outputs and calls of a local shell may have the call's id in `id`."""
    return item.call_id or (item.id if item.type in ("local_shell_call", "local_shell_call_output") else None) or ""


def _short_id(item: ClientItem) -> str:
    return extract_from_id(_sent_id(item))[0]


def _minted_id(at: int) -> str:
    """An id for a call without one. It is made of the position and so is the same in every later request."""
    return "call_" + blake2b(b"%d" % at, digest_size=12, person=b"lost id").hexdigest()


def _function_call(item: ClientItem, offered: OfferedTools, path: str) -> tuple[str, str]:
    """The arguments stay the client's own text, so that prompt caches and models see the same text again."""
    return offered.flat_name(item.namespace, _name(item, path)), _json_text(item.arguments)


def _custom_call(item: ClientItem, offered: OfferedTools, path: str) -> tuple[str, str]:
    text = _string.decode(item.input) if is_string(item.input) else _json_text(item.input)
    return offered.flat_name(item.namespace, _name(item, path)), _encode({"input": text}).decode()


def _search_call(item: ClientItem, offered: OfferedTools, path: str) -> tuple[str, str]:
    return offered.name_of_kind("tool_search"), _json_text(item.arguments)


def _local_shell_call(item: ClientItem, offered: OfferedTools, path: str) -> tuple[str, str]:
    return offered.name_of_kind("local_shell"), _action(item.action)


def _shell_call(item: ClientItem, offered: OfferedTools, path: str) -> tuple[str, str]:
    return offered.name_of_kind("shell"), _action(item.action)


def _patch_call(item: ClientItem, offered: OfferedTools, path: str) -> tuple[str, str]:
    return offered.name_of_kind("apply_patch"), '{"operation":%s}' % (_json_text(item.operation) or "{}")


def _name(item: ClientItem, path: str) -> str:
    if not item.name:
        raise refused(f"{path}.name", "this field is required")
    return item.name


def _json_text(raw: msgspec.Raw) -> str:
    """The text of a string, or of any other JSON; "" for none."""
    if not given(raw):
        return ""
    return _string.decode(raw) if is_string(raw) else bytes(raw).decode()


def _action(raw: msgspec.Raw) -> str:
    """The members of an action, without its type and without those that say nothing."""
    if not given(raw) or first_byte(raw) != b"{":
        return "{}"
    return _encode({name: value for name, value in _object.decode(raw).items()
                    if name != "type" and given(value)}).decode()


_CALLS: dict[str, Callable[[ClientItem, OfferedTools, str], tuple[str, str]]] = {
    "function_call": _function_call,
    "custom_tool_call": _custom_call,
    "tool_search_call": _search_call,
    "local_shell_call": _local_shell_call,
    "shell_call": _shell_call,
    "apply_patch_call": _patch_call,
}
"""For each type of call: the name and the arguments of the function that stands for it."""

# ------------------------------------------------------------------------------------------------------------- outputs


def _plain_output(item: ClientItem, offered: OfferedTools, path: str, dropped: Dropped) -> list[Text | Media]:
    return read_output(item.output, path, dropped)


def _search_output(item: ClientItem, offered: OfferedTools, path: str, dropped: Dropped) -> list[Text | Media]:
    """The definitions are among the tools of this request; the model learns their names."""
    names: list[str] = []
    for raw in item.tools or ():
        tool = _any.decode(raw)
        if not isinstance(tool, dict):
            continue
        members = tool.get("tools") if tool.get("type") == "namespace" else None
        group = tool.get("name") if isinstance(members, list) else None
        for member in members if isinstance(members, list) else [tool]:
            name = member.get("name") if isinstance(member, dict) else None
            if isinstance(name, str):
                names.append(offered.flat_name(group if isinstance(group, str) else None, name))
    return [Text(LOADED_TOOLS + ", ".join(names) if names else "No tool was found.")]


def _shell_output(item: ClientItem, offered: OfferedTools, path: str, dropped: Dropped) -> list[Text | Media]:
    """One text for each command: what it printed, and how it ended."""
    results = _any.decode(item.output) if given(item.output) else []
    if not isinstance(results, list):
        return read_output(item.output, path, dropped)
    blocks: list[Text | Media] = []
    for result in results:
        if not isinstance(result, dict):
            continue
        outcome = result.get("outcome")
        code = outcome.get("exit_code") if isinstance(outcome, dict) else None
        end = f"exit code: {code}" if code is not None else "timeout" if isinstance(outcome, dict) else ""
        printed = [result.get("stdout"), result.get("stderr"), end]
        blocks.append(Text("\n".join(part for part in printed if isinstance(part, str) and part)))
    return blocks


_OUTPUTS: dict[str, Callable[[ClientItem, OfferedTools, str, Dropped], list[Text | Media]]] = {
    "function_call_output": _plain_output,
    "custom_tool_call_output": _plain_output,
    "local_shell_call_output": _plain_output,
    "apply_patch_call_output": _plain_output,
    "shell_call_output": _shell_output,
    "tool_search_output": _search_output,
}


def _note_of_hosted(item: ClientItem, kind: str) -> str | None:
    """What the model may still know of it; None where there is no faithful rendering."""
    if kind != "web_search_call" or not given(item.action):
        return None
    action = _any.decode(item.action)
    query = action.get("query") if isinstance(action, dict) else None
    return f"Web search: {query}" if isinstance(query, str) and query else None
