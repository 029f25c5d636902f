"""What the Messages API refuses: a decoded request body and its headers in, the refusal's message (or None) out.

The scripted provider calls `refusal` before it answers, so that a translation which Anthropic would refuse fails its
test. The wording follows the service. The rules know models by their names, independently of the profiles. Stricter
than the service on purpose: results stand in the order of their calls, ids are used once in a conversation, messages
alternate, unknown fields are refused everywhere.
"""

from __future__ import annotations

import base64
import itertools
import re
from collections.abc import Mapping
from typing import Any

Json = Any

NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
ID = re.compile(r"[a-zA-Z0-9_-]+")
KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
BODY_FIELDS = {"model", "max_tokens", "messages", "system", "stream", "temperature", "top_p", "top_k", "stop_sequences",
               "thinking", "output_config", "metadata", "tools", "tool_choice", "service_tier", "container",
               "context_management", "cache_control", "inference_geo"}
VERSIONS = ("2023-06-01", "2026-10-21")
"""The second is what the SDK sends from 2.12 on; it refuses sampling parameters for every model."""
EFFORTS = ("low", "medium", "high", "xhigh", "max")
IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
SERVER_BLOCKS = {"server_tool_use", "web_search_tool_result", "web_fetch_tool_result", "container_upload", "compaction"}


class Refused(Exception):  # noqa: N818 - the field's word
    """The message of a 400."""


def refusal(body: Json, headers: Mapping[str, str] | None = None) -> str | None:
    """The message with which Anthropic refuses this request. Without `headers` none are looked at."""
    try:
        if headers is not None:
            _check_headers(headers, body)
        _check(body, _betas(headers) if headers is not None else None)
    except Refused as problem:
        return str(problem)
    return None


def _check_headers(headers: Mapping[str, str], body: Json) -> None:
    version = headers.get("anthropic-version")
    if version not in VERSIONS:
        raise Refused("anthropic-version: header is required")
    if version != VERSIONS[0]:
        for name in ("temperature", "top_p", "top_k"):
            if name in body:
                raise Refused(f"`{name}` is not supported in the version {version}.")
    if "application/json" not in headers.get("content-type", ""):
        raise Refused("content-type: expected application/json")


def _betas(headers: Mapping[str, str]) -> set[str]:
    return set(filter(None, headers.get("anthropic-beta", "").split(",")))


def _check(body: Json, betas: set[str] | None) -> None:
    _object(body, "body")
    _only(body, BODY_FIELDS, "")
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise Refused("model: Field required")
    limit = body.get("max_tokens")
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise Refused("max_tokens: Field required")
    if limit < 1:
        raise Refused("max_tokens: Input should be greater than or equal to 1")
    if limit > most_tokens(model):
        raise Refused(f"max_tokens: {limit} > {most_tokens(model)}, which is the maximum allowed number of output "
                      f"tokens for {model}")
    _check_thinking(body, model, betas)
    _check_sampling(body, model)
    _check_stop(body.get("stop_sequences"))
    _check_output(body, model)
    metadata = body.get("metadata", {})
    _only(metadata, {"user_id"}, "metadata.")
    if len(metadata.get("user_id", "")) > 256:
        raise Refused("metadata.user_id: String should have at most 256 characters")
    names = _check_tools(body.get("tools"))
    _check_choice(body, names, model)
    for i, block in enumerate(_system(body)):
        _check_text(block, f"system.{i}")
    _check_messages(body, model, betas)
    marks = _marks(body)
    if marks > 4:
        raise Refused(f"A maximum of 4 blocks with cache_control may be provided. Found {marks}.")


# ------------------------------------------------------------------------------------------------------- by the model
def _version(model: str) -> tuple[str, float]:
    """(line, version) of a Claude: ("sonnet", 4.5)."""
    plain = model.rpartition("/")[2].replace(".", "-")
    if found := re.search(r"claude-(\d)(?:-(\d))?-(opus|sonnet|haiku)", plain):
        return found.group(3), int(found.group(1)) + int(found.group(2) or 0) / 10
    if found := re.search(r"(opus|sonnet|haiku|fable|mythos)-(\d)(?:-(\d)(?!\d))?(?!\d)", plain):
        return found.group(1), int(found.group(2)) + int(found.group(3) or 0) / 10
    return "unknown", 99


def most_tokens(model: str) -> int:
    line, version = _version(model)
    if version < 3.5:
        return 4096
    if version < 3.7:
        return 8192
    if line == "opus" and version in (4.0, 4.1):
        return 32_000
    return 64_000 if version < 4.6 else 128_000


def thinking_types(model: str) -> set[str]:
    line, version = _version(model)
    if "mythos-preview" in model:
        return {"enabled", "adaptive"}
    if version < 3.7:
        return {"disabled"}
    if version < 4.6:
        return {"enabled", "disabled"}
    if version == 4.6:
        return {"enabled", "adaptive", "disabled"}
    if line in ("fable", "mythos", "unknown") or (line == "opus" and version == 5.5):
        return {"adaptive"}
    if line == "sonnet" and version == 5.5:
        return {"adaptive", "between_tools"}
    return {"adaptive", "disabled"}


def efforts(model: str) -> tuple[str, ...]:
    line, version = _version(model)
    if version == 4.5 and line == "opus":
        return EFFORTS[:3]
    if version < 4.6:
        return ()
    return ("low", "medium", "high", "max") if version == 4.6 else EFFORTS


def _thinks(body: Json, model: str) -> bool:
    field = body.get("thinking")
    if field is None:
        return _version(model)[1] >= 5
    return bool(field["type"] in ("enabled", "adaptive"))


# -------------------------------------------------------------------------------------------------------- parameters
def _check_thinking(body: Json, model: str, betas: set[str] | None) -> None:
    field = body.get("thinking")
    if field is None:
        return
    _object(field, "thinking")
    kind = field.get("type")
    if kind not in thinking_types(model):
        raise Refused(f'"thinking.type.{kind}" is not supported for this model.')
    allowed = {"enabled": {"type", "budget_tokens", "display"}, "adaptive": {"type", "display", "block_binding"}}
    _only(field, allowed.get(kind, {"type"}), f"thinking.{kind}.")
    if "block_binding" in field:
        if field["block_binding"] != {"prefix_mismatch_behavior": "drop_block"}:
            raise Refused("thinking.adaptive.block_binding: Input should be a valid dictionary")
        if betas is not None and "thinking-binding-controls-2026-08-01" not in betas:
            raise Refused("thinking.adaptive.block_binding: Extra inputs are not permitted")
    if kind != "enabled":
        return
    budget = field.get("budget_tokens")
    if not isinstance(budget, int):
        raise Refused("thinking.enabled.budget_tokens: Field required")
    if budget < 1024:
        raise Refused("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
    if budget >= body["max_tokens"]:
        raise Refused("`max_tokens` must be greater than `thinking.budget_tokens`.")


def _check_sampling(body: Json, model: str) -> None:
    for name, high in (("temperature", 1.0), ("top_p", 1.0)):
        value = body.get(name)
        if value is not None and not (isinstance(value, int | float) and 0 <= value <= high):
            raise Refused(f"{name}: Input should be less than or equal to {high}")
    given = [name for name in ("temperature", "top_p", "top_k") if name in body]
    if given and _version(model)[1] >= 4.7:
        raise Refused(f"`{given[0]}` is deprecated for this model.")
    if {"temperature", "top_p"} <= set(given) and _version(model)[1] >= 4.1:
        raise Refused("`temperature` and `top_p` cannot both be specified for this model. Please use only one.")
    if _thinks(body, model) and (body.get("temperature", 1) != 1 or "top_k" in body or "top_p" in body):
        raise Refused("`temperature` may only be set to 1 when thinking is enabled.")


def _check_stop(sequences: Json) -> None:
    for i, text in enumerate(sequences or ()):
        if not isinstance(text, str) or not text.strip():
            raise Refused(f"stop_sequences.{i}: each stop sequence must contain non-whitespace")


def _check_output(body: Json, model: str) -> None:
    config = body.get("output_config")
    if config is None:
        return
    _only(config, {"effort", "format"}, "output_config.")
    if "effort" in config:
        if config["effort"] not in efforts(model):
            raise Refused("This model does not support the effort parameter.")
        off = body.get("thinking", {}).get("type") in ("disabled", "between_tools")
        if off and config["effort"] in ("xhigh", "max"):
            raise Refused(f"output_config.effort: {config['effort']} is not supported with thinking off")
    if "format" in config:
        if _version(model)[1] < 4.5:
            raise Refused("output_config.format: not supported by this model")
        _only(config["format"], {"type", "schema"}, "output_config.format.")
        check_grammar(config["format"].get("schema"), "output_config.format.schema")
        if body["messages"][-1].get("role") == "assistant":
            raise Refused("output_config.format: incompatible with a prefilled assistant message")


def check_grammar(schema: Json, at: str) -> None:
    """A schema that is compiled into a grammar."""
    _object(schema, at)
    if not set(schema) & {"type", "enum", "const", "anyOf", "allOf", "$ref"}:
        raise Refused(f"{at}: schema must have a type")
    unknown = set(schema) - {"type", "properties", "required", "additionalProperties", "items", "enum", "const",
                             "anyOf", "allOf", "$ref", "$defs", "definitions", "description", "title", "default",
                             "format", "minItems"}
    if unknown:
        raise Refused(f"{at}: For '{schema.get('type')}' type, property '{min(unknown)}' is not supported")
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        raise Refused(f"{at}: For 'object' type, 'additionalProperties' must be explicitly set to false")
    for key in ("properties", "$defs", "definitions"):
        for name, child in schema.get(key, {}).items():
            check_grammar(child, f"{at}.{key}.{name}")
    for key in ("anyOf", "allOf"):
        for i, child in enumerate(schema.get(key, [])):
            check_grammar(child, f"{at}.{key}.{i}")
    if "items" in schema:
        check_grammar(schema["items"], f"{at}.items")


# -------------------------------------------------------------------------------------------------------------- tools
def _check_tools(tools: Json) -> set[str] | None:
    if tools is None:
        return None
    if not isinstance(tools, list):
        raise Refused("tools: Input should be a valid list")
    names: set[str] = set()
    for i, tool in enumerate(tools):
        at = f"tools.{i}"
        name = tool.get("name")
        if tool.get("type", "custom") != "custom":  # a server tool
            names.add(name)
            continue
        _only(tool, {"name", "description", "input_schema", "strict", "cache_control", "type"}, f"{at}.custom.")
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise Refused(f"{at}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
        if name in names:
            raise Refused("tools: Tool names must be unique.")
        names.add(name)
        if "description" in tool and not isinstance(tool["description"], str):
            raise Refused(f"{at}.custom.description: Input should be a valid string")
        schema = tool.get("input_schema")
        if not isinstance(schema, dict) or schema.get("type") != "object":
            raise Refused(f"{at}.custom.input_schema.type: Field required")
        if {"oneOf", "allOf", "anyOf"} & schema.keys():
            raise Refused(f"{at}.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top "
                          "level")
        _check_keys(schema, f"{at}.custom.input_schema")
        if tool.get("strict"):
            check_grammar(schema, f"{at}.custom.input_schema")
    return names


def _check_keys(node: Json, at: str) -> None:
    waiting = [node]
    while waiting:
        schema = waiting.pop()
        if not isinstance(schema, dict):
            continue
        properties = schema.get("properties")
        if isinstance(properties, dict):
            for key in properties:
                if not KEY.fullmatch(key):
                    raise Refused(f"{at}.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{{1,64}}$'")
            waiting += properties.values()
        waiting += [schema.get(key) for key in ("items", "additionalProperties", "not")]
        for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
            waiting += schema[key] if isinstance(schema.get(key), list) else []


def _check_choice(body: Json, names: set[str] | None, model: str) -> None:
    choice = body.get("tool_choice")
    if choice is None:
        return
    if not names:
        raise Refused("tool_choice may only be specified while providing tools.")
    kind = choice.get("type")
    allowed = {"auto": {"type", "disable_parallel_tool_use"}, "any": {"type", "disable_parallel_tool_use"},
               "tool": {"type", "name", "disable_parallel_tool_use"}, "none": {"type"}}
    if kind not in allowed:
        raise Refused("tool_choice: Input tag does not match any of the expected tags: 'any', 'auto', 'none', 'tool'")
    _only(choice, allowed[kind], f"tool_choice.{kind}.")
    if kind == "tool" and choice.get("name") not in names:
        raise Refused(f"Tool '{choice.get('name')}' not found in provided tools")
    if kind not in ("any", "tool"):
        return
    line, version = _version(model)
    if version >= 5.5 or line in ("fable", "mythos", "unknown"):
        raise Refused('tool_choice: type "tool" and "any" are not supported for this model.')
    if body.get("thinking", {}).get("type") == "enabled":
        raise Refused("Thinking may not be enabled when tool_choice forces tool use.")


# ----------------------------------------------------------------------------------------------------------- messages
def _system(body: Json) -> list[Json]:
    system = body.get("system", [])
    if isinstance(system, str):
        return [{"type": "text", "text": system}]
    if not isinstance(system, list):
        raise Refused("system: Input should be a valid list")
    return system


def _check_text(block: Json, at: str) -> None:
    _only(block, {"type", "text", "cache_control", "citations"}, f"{at}.")
    if block.get("type") != "text" or not isinstance(block.get("text"), str):
        raise Refused(f"{at}.text: Field required")
    if not block["text"]:
        raise Refused(f"{at}: text content blocks must be non-empty")
    if not block["text"].strip():
        raise Refused(f"{at}: text content blocks must contain non-whitespace text")


def _check_messages(body: Json, model: str, betas: set[str] | None) -> None:
    messages = body.get("messages")
    if not isinstance(messages, list):
        raise Refused("messages: Field required")
    if not messages:
        raise Refused("messages: at least one message is required")
    ids: set[str] = set()
    waiting: list[str] = []
    before = None
    for i, message in enumerate(messages):
        at = f"messages.{i}"
        _only(message, {"role", "content"}, f"{at}.")
        role, blocks = message.get("role"), _content(message, at)
        _check_turn(role, before, at, model, last=i == len(messages) - 1)
        calls: list[str] = []
        for j, block in enumerate(blocks):
            kind = _check_block(block, role, f"{at}.content.{j}", betas)
            if kind == "tool_use":
                if block["id"] in ids:
                    raise Refused(f"{at}.content.{j}: `tool_use` ids must be unique")
                ids.add(block["id"])
                calls.append(block["id"])
        if role != "system":
            _check_results(blocks, waiting, at)
            waiting = calls
        if role == "assistant":
            _check_order([block.get("type") for block in blocks], at)
        before = role
    if waiting:
        raise Refused(f"messages.{len(messages) - 1}: `tool_use` ids were found without `tool_result` blocks "
                      f"immediately after: {', '.join(waiting)}.")
    if ids and not body.get("tools"):
        raise Refused("Requests which include `tool_use` or `tool_result` blocks must define tools.")
    _check_prefill(messages[-1], body, model)
    if body.get("thinking", {}).get("type") == "enabled":
        _check_loop(messages)


def _check_order(kinds: list[Json], at: str) -> None:
    """Measured at the service: two thoughts side by side count as edited ones, and nothing may follow the calls."""
    if kinds[-1] in ("thinking", "redacted_thinking"):
        raise Refused(f"{at}: The final block in an assistant message cannot be `thinking`.")
    if ("thinking", "thinking") in itertools.pairwise(kinds):
        raise Refused(f"{at}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be "
                      "modified. These blocks must remain as they were in the original response.")
    if "tool_use" in kinds and kinds[-1] != "tool_use":
        raise Refused("This model does not support assistant message prefill. The conversation must end with a user "
                      "message.")


def _check_turn(role: Json, before: str | None, at: str, model: str, *, last: bool) -> None:
    if role not in ("user", "assistant", "system"):
        raise Refused(f"{at}.role: Input should be 'user' or 'assistant'")
    if before is None and role != "user":
        raise Refused(f"{at}: first message must use the \"user\" role")
    if role == before:
        raise Refused(f"{at}: (stricter than the service) roles must alternate")
    if role == "system":
        if _version(model)[1] < 4.8 or "mythos-preview" in model:
            raise Refused("role 'system' is not supported on this model")
        if before != "user":
            raise Refused(f"{at}: a system message must follow a user message")
    if before == "system" and role != "assistant":
        raise Refused(f"{at}: a system message must be followed by an assistant message or be the last")


def _content(message: Json, at: str) -> list[Json]:
    content = message.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise Refused(f"{at}.content: Field required")
    if not content:
        raise Refused(f"{at}: all messages must have non-empty content except for the optional final assistant message")
    return content


def _check_block(block: Json, role: str, at: str, betas: set[str] | None) -> str:
    _object(block, at)
    kind = block.get("type")
    allowed = {"user": {"text", "image", "document", "tool_result"},
               "assistant": {"text", "thinking", "redacted_thinking", "tool_use"} | SERVER_BLOCKS, "system": {"text"}}
    if kind not in allowed[role]:
        raise Refused(f"{at}: Input tag '{kind}' found using 'type' does not match any of the expected tags")
    if kind == "text":
        _check_text(block, at)
    elif kind == "image":
        _only(block, {"type", "source", "cache_control"}, f"{at}.")
        _check_source(block.get("source"), kind, at, betas)
    elif kind == "document":
        _only(block, {"type", "source", "title", "context", "citations", "cache_control"}, f"{at}.")
        _check_source(block.get("source"), kind, at, betas)
    elif kind == "thinking":
        _only(block, {"type", "thinking", "signature"}, f"{at}.")
        if not block.get("signature") or block["signature"].startswith(("xs1.", "foreign")):
            raise Refused(f"{at}: Invalid `signature` in `thinking` block")
    elif kind == "redacted_thinking":
        _only(block, {"type", "data"}, f"{at}.")
    elif kind == "tool_use":
        _only(block, {"type", "id", "name", "input", "cache_control"}, f"{at}.")
        _check_id(block.get("id"), f"{at}.tool_use.id")
        if not isinstance(block.get("name"), str) or not NAME.fullmatch(block["name"]):
            raise Refused(f"{at}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
        _object(block.get("input"), f"{at}.tool_use.input")
    elif kind == "tool_result":
        _check_result(block, at, betas)
    return str(kind)


def _check_result(block: Json, at: str, betas: set[str] | None) -> None:
    _only(block, {"type", "tool_use_id", "content", "is_error", "cache_control"}, f"{at}.")
    _check_id(block.get("tool_use_id"), f"{at}.tool_result.tool_use_id")
    content = block.get("content", [])
    if block.get("is_error") and not content:
        raise Refused(f"{at}.tool_result: content cannot be empty if `is_error` is true")
    if isinstance(content, str):
        return
    for k, part in enumerate(content):
        if part.get("type") not in ("text", "image", "document"):
            raise Refused(f"{at}.tool_result.content.{k}: Input tag '{part.get('type')}' is not allowed")
        _check_block(part, "user", f"{at}.tool_result.content.{k}", betas)


def _check_source(source: Json, kind: str, at: str, betas: set[str] | None) -> None:
    _object(source, f"{at}.source")
    form = source.get("type")
    if form == "base64":
        _only(source, {"type", "media_type", "data"}, f"{at}.source.")
        types = IMAGE_TYPES if kind == "image" else ("application/pdf",)
        if source.get("media_type") not in types:
            raise Refused(f"{at}.source.base64.media_type: Input should be {' or '.join(types)}")
        try:
            base64.b64decode(source["data"], validate=True)
        except (ValueError, KeyError, TypeError):
            raise Refused(f"{at}.source.base64.data: Invalid base64 data") from None
    elif form == "url":
        if not str(source.get("url")).startswith("https://"):
            raise Refused(f"{at}.source.url: Only HTTPS URLs are supported.")
    elif form == "file":
        if betas is not None and "files-api-2025-04-14" not in betas:
            raise Refused(f"{at}.source: Input tag 'file' is not allowed")
    elif form == "text" and kind == "document":
        if source.get("media_type") != "text/plain" or not source.get("data"):
            raise Refused(f"{at}.source.text.data: must be non-empty plain text")
    else:
        raise Refused(f"{at}.source: Input tag '{form}' is not allowed")


def _check_results(blocks: list[Json], waiting: list[str], at: str) -> None:
    """All results of the message before, in call order, first in this one, and no others."""
    results = [block["tool_use_id"] for block in blocks if block.get("type") == "tool_result"]
    for found in results:
        if found not in waiting:
            raise Refused(f"{at}: unexpected `tool_use_id` found in `tool_result` blocks: {found}. Each `tool_result` "
                          "block must have a corresponding `tool_use` block in the previous message.")
    missing = [wanted for wanted in waiting if wanted not in results]
    if missing:
        raise Refused(f"{at}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                      f"{', '.join(missing)}.")
    if results != waiting:
        raise Refused(f"{at}: each tool_use must have a single result, in the order of the calls")
    head = [block.get("type") for block in blocks[: len(results)]]
    if head != ["tool_result"] * len(results):
        raise Refused(f"{at}: `tool_result` blocks must come first in the message")


def _check_prefill(last: Json, body: Json, model: str) -> None:
    if last["role"] != "assistant":
        return
    if _version(model)[1] >= 4.6:
        raise Refused("This model does not support assistant message prefill. The conversation must end with a user "
                      "message.")
    if _thinks(body, model):
        raise Refused("messages: the final message cannot be an assistant message when thinking is enabled")
    final = last["content"][-1] if isinstance(last["content"], list) else {"type": "text", "text": last["content"]}
    if final.get("type") == "text" and final["text"] != final["text"].rstrip():
        raise Refused("messages: final assistant content cannot end with trailing whitespace")


def _check_loop(messages: list[Json]) -> None:
    """A tool loop is one turn of the model: it begins behind the last message of the user that answers no call."""
    if not _answers(messages[-1]):
        return
    at = len(messages) - 1
    while at > 0 and (messages[at]["role"] == "assistant" or _answers(messages[at])):
        at -= 1
    first = next(message for message in messages[at:] if message["role"] == "assistant")
    kind = first["content"][0].get("type")
    if kind not in ("thinking", "redacted_thinking"):
        raise Refused(f"messages.{messages.index(first)}.content.0.type: Expected `thinking` or `redacted_thinking`, "
                      f"but found `{kind}`. When `thinking` is enabled, a final `assistant` message must start with a "
                      "thinking block.")


def _answers(message: Json) -> bool:
    return message["role"] == "user" and any(block.get("type") == "tool_result" for block in message["content"]
                                             if isinstance(block, dict))


def _marks(body: Json) -> int:
    found = [*(body.get("tools") or ()), *_system(body)]
    for message in body["messages"]:
        for block in message["content"] if isinstance(message["content"], list) else ():
            found.append(block)
            if isinstance(block.get("content"), list):
                found += block["content"]
    marked = [block for block in found if block.get("cache_control") is not None]
    for block in marked:
        if block["cache_control"].get("type") != "ephemeral":
            raise Refused("cache_control.type: Input should be 'ephemeral'")
        if block.get("type", "text") in ("thinking", "redacted_thinking"):
            raise Refused("cache_control: not allowed on thinking blocks")
    return len(marked)


# ------------------------------------------------------------------------------------------------------ single values
def _object(value: Json, at: str) -> None:
    if not isinstance(value, dict):
        raise Refused(f"{at}: Input should be a valid dictionary")


def _only(value: Json, allowed: set[str], prefix: str) -> None:
    _object(value, prefix.rstrip(".") or "body")
    for key in value:
        if key not in allowed:
            raise Refused(f"{prefix}{key}: Extra inputs are not permitted")


def _check_id(value: Json, at: str) -> None:
    if not isinstance(value, str) or not ID.fullmatch(value):
        raise Refused(f"{at}: String should match pattern '^[a-zA-Z0-9_-]+$'")
